package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/topology"
)

func TestMap(t *testing.T) {
	labels, err := os.ReadFile("../../testdata/neighbours/topograph.json")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := quoin(t, string(labels), "map", "--nodes", "-")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{"9 nodes · 2 NVLink blocks · block sizes 4", "□□□□   4/4  gb200-[00-03]", "S-000  □□  gb200-[00-01]", "In no block", "login-0"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the map lacks %q:\n%s", want, stdout)
		}
	}
	code, stdout, stderr = quoin(t, string(labels), "map", "--nodes", "-", "-o", "html")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "<!doctype html>") || strings.Count(stdout, `<rect class="n without-report"`) != 9 {
		t.Errorf("-o html: exit %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr = quoin(t, "", "map", "--nodes", "-", "-o", "svg"); code == 0 || !strings.Contains(stderr, "want text, html or json") {
		t.Errorf("-o svg: exit %d, %s", code, stderr)
	}
	code, stdout, stderr = quoin(t, string(labels), "map", "--nodes", "-", "--set", "publicationDefaults.blocksBy=leaf")
	if code != 0 || !strings.Contains(stdout, "4 leaf blocks · block sizes 2") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr = quoin(t, "", "map", "--nodes", "-", "--set", "publicationDefaults.blocksBy=row"); code == 0 || !strings.Contains(stderr, `--set: publication "default": blocksBy: "row": want nvlink or leaf`) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if code, _, stderr = quoin(t, `{"items": []}`, "map", "--nodes", "-"); code == 0 || !strings.Contains(stderr, "no node") {
		t.Errorf("an empty cluster: exit %d, %s", code, stderr)
	}
}

// TestMapWithoutNames has no node with the label that names it.
func TestMapWithoutNames(t *testing.T) {
	code, stdout, stderr := quoin(t, twoByTwo, "map", "--nodes", "-", "--set", "publicationDefaults.slurmNames=label:no/such")
	if code != 0 || !strings.HasPrefix(stdout, "without a Slurm name: a1.site,a2.site,cpu: NoSlurmName: ") {
		t.Errorf("exit %d, %s\n%s", code, stdout, stderr)
	}
}

// TestOutputJSON reads what commands print for programs.
func TestOutputJSON(t *testing.T) {
	var drawn struct {
		Kind    string
		Plan    topology.Plan
		Places  map[string]topology.Place
		States  map[string]string
		LeftOut []show.Group
	}
	var made struct {
		Kind    string
		Files   map[string]string
		LeftOut []show.Group
	}
	var compared struct {
		Kind     string
		Result   string
		Summary  []string
		Findings []show.Group
	}
	parse := func(code int, into any, stdin string, args ...string) {
		t.Helper()
		got, stdout, stderr := quoin(t, stdin, append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(stdout), into); err != nil || got != code || stderr != "" {
			t.Fatalf("%v: exit %d, %v, %s\n%s", args, got, err, stderr, stdout)
		}
	}
	parse(0, &drawn, twoByTwo, "map", "--nodes", "-")
	if drawn.Kind != "Map" || len(drawn.Plan.Blocks()) != 1 || drawn.Places["a1"].Block != drawn.Plan.Blocks()[0].Name || drawn.States["a1"] != "without report" || len(drawn.LeftOut) != 1 {
		t.Errorf("map: %+v", drawn)
	}
	dir := t.TempDir()
	parse(0, &made, twoByTwo, "render", "--nodes", "-", "--dir", dir)
	text, err := os.ReadFile(filepath.Join(dir, "topology.yaml"))
	if err != nil || made.Kind != "RenderResult" || made.Files["topology.yaml"] != string(text) {
		t.Errorf("render: %v, %+v", err, made)
	}
	if diff := cmp.Diff([]show.Group{{Nodes: []string{"cpu"}, Reason: "NoGPUs", Message: made.LeftOut[0].Message}}, made.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	const shown = "BlockName=nvl-8a61c302-7 BlockIndex=0 Nodes=a[1,3] BlockSize=2\n"
	parse(1, &compared, shown, "check", "--topology", "-", dir)
	block := "block nvl-8a61c302-7"
	want := []show.Group{
		{Nodes: []string{"a2"}, Severity: topology.Fatal, Reason: "NotInSlurm", Message: block + " in the file, absent in Slurm"},
		{Nodes: []string{"a3"}, Severity: topology.Fatal, Reason: "NotInFile", Message: "absent in the file, " + block + " in Slurm"},
	}
	if diff := cmp.Diff(want, compared.Findings); diff != "" || compared.Result != "differs" || compared.Kind != "CheckResult" {
		t.Errorf("check: %+v (-want +got):\n%s", compared, diff)
	}
}

// TestMapReports draws reports of machines without Kubernetes: their own nvidia-imex.service says
// how IMEX is.
func TestMapReports(t *testing.T) {
	dir := t.TempDir()
	for node, imex := range map[string]string{"n1": `"hostService":true,"daemonState":"READY"`, "n2": `"hostService":true,"daemonState":"WAITING_FOR_PEERS"`} {
		report := `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"` + node + `","domain":"8a61c302-0000-4000-8000-000000000001.7","gpus":[{"index":0,"uuid":"GPU-` + node + `","fabric":{"state":"completed","clusterUUID":"8a61c302-0000-4000-8000-000000000001","cliqueID":7}}],"imex":{"channelMajor":235,` + imex + `}}`
		if err := os.WriteFile(filepath.Join(dir, node+".json"), []byte(report), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := quoin(t, "", "map", dir)
	for _, want := range []string{"\nIMEX\n      1  Ready     n1\n      1  NotReady  n2\n         nvidia-imex.service says WAITING_FOR_PEERS. What to do: wait", "2 nodes · 1 with warning"} {
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %s, the map lacks %q:\n%s", code, stderr, want, stdout)
		}
	}
	if strings.Contains(stdout, "Agrees") { // with what? Nothing is published
		t.Errorf("the map of reports alone says that published places agree:\n%s", stdout)
	}
}
