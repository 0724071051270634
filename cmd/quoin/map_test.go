package main

import (
	"os"
	"strings"
	"testing"
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
	code, stdout, stderr = quoin(t, string(labels), "map", "--nodes", "-", "--set", "publications.blocksBy=leaf")
	if code != 0 || !strings.Contains(stdout, "4 leaf blocks · block sizes 2") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr = quoin(t, "", "map", "--nodes", "-", "--set", "publications.blocksBy=row"); code == 0 || !strings.Contains(stderr, `--set: publication "default": blocksBy: "row": want nvlink or leaf`) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if code, _, stderr = quoin(t, `{"items": []}`, "map", "--nodes", "-"); code == 0 || !strings.Contains(stderr, "no node") {
		t.Errorf("an empty cluster: exit %d, %s", code, stderr)
	}
}
