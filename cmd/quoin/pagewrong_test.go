package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

var inlineCommand = regexp.MustCompile("`quoin ([^`\n]+)`")

// TestPagesNameCommands holds that each command line of quoin within a sentence or a table of a page has a
// command and flags that there are.
func TestPagesNameCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	count := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range inlineCommand.FindAllStringSubmatch(string(text), -1) {
			count++
			if err := checkCall(strings.Fields(m[1]), true); err != nil {
				t.Errorf("%s: quoin %s: %v", path, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 20 {
		t.Errorf("the pages have %d command lines, want 20 or more", count)
	}
}

// TestPageWhenSomethingIsWrong runs the commands of the page on a site whose publisher holds a change, and
// compares what they say with the page. Lines of the page that end in ... are cut.
func TestPageWhenSomethingIsWrong(t *testing.T) {
	t.Parallel()
	site := heldSite(t)
	store, digest := []string{"--store", site}, digestOf(t, site)
	later := filepath.Join(t.TempDir(), "later") // the change was approved
	if err := os.CopyFS(later, os.DirFS(site)); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := quoin(t, "", "plan", "approve", digest, "--store", later); code != 0 {
		t.Fatal(out, errs)
	}
	publish(t, later, "the change is published", func() bool { return holds(filepath.Join(later, "plans/default.json"), `"number":2`) })
	etc := filepath.Join(t.TempDir(), "etc")
	for _, name := range []string{"topology.yaml", "gres.conf"} {
		text, err := os.ReadFile(filepath.Join(site, "published/slurm/quoin-slurm", name))
		if err != nil {
			t.Fatal(err)
		}
		put.File(t, filepath.Join(etc, name), string(text), 0o600)
	}
	put.File(t, filepath.Join(etc, "slurm.conf"), "SlurmctldHost=ctl\nClusterName=hpc\nGresTypes=gpu\nNodeName=gb200-[001-072] Gres=gpu:8\nPartitionName=gpu Nodes=gb200-[001-072] Topology=nvl-18\n", 0o600)
	recorded, err := txtar.ParseFile("../../testdata/scripts/imexcheck.txtar")
	if err != nil {
		t.Fatal(err)
	}
	objects := recorded.Files[slices.IndexFunc(recorded.Files, func(f txtar.File) bool { return f.Name == "bad.json" })]
	node := nodedir.New(t, filepath.Join(t.TempDir(), "node"))
	put.File(t, filepath.Join(node.Run(), "jobs/4711.json"), `{"apiVersion":"quoin.dev/v1alpha1","kind":"JobRecord","jobID":"4711","user":"ada","node":"n1","gpus":["0"]}`, 0o600)
	// What the page leaves out: where the recorded site is, and what Slurm says.
	var free strings.Builder
	for i := range 72 {
		fmt.Fprintf(&free, "gb200-%03d %s gpu:4\n", i+1, map[bool]string{true: "drained", false: "idle"}[i > 68])
	}
	loaded := "BlockName=nvl-760218b5-2 BlockIndex=0 Nodes=gb200-[019-035] BlockSize=18\n"
	add := map[string][]string{"plan": store, "map": store, "check": store, "fit": store, "imex": {"--objects", write(t, "objects.json", string(objects.Data))}, "job": node.Files(), "plan rollback": {"--store", later}}
	stdin := map[string]string{"fit": free.String(), "check": loaded}
	status := map[string]int{"lint": 1, "plan status": 1, "plan diff": 1, "fit": 1, "check": 1, "imex check": 1}

	blocks, err := pages.Read("../../manifests/docs/when-something-is-wrong.md")
	if err != nil {
		t.Fatal(err)
	}
	said, ran := "", 0
	for _, b := range blocks {
		switch {
		case b.NotRun != "": // TestPagesCallQuoin reads its commands
		case b.Language == "sh":
			said = ""
			b.Text = strings.NewReplacer("/etc/slurm", etc, exampleDigest, digest).Replace(b.Text)
			calls, err := b.CallsOf("quoin")
			if err != nil {
				t.Fatal(err)
			}
			for _, words := range calls {
				two := strings.Join(words[:min(2, len(words))], " ")
				more, named := add[two]
				if !named {
					more = add[words[0]]
				}
				code, out, errs := quoin(t, stdin[words[0]], append(words, more...)...)
				ran++
				if want := max(status[words[0]], status[two]); code != want {
					t.Errorf("line %d: quoin %q: exit %d, want %d\n%s%s", b.Line, words, code, want, out, errs)
				}
				said += out
			}
		case b.Language == "text":
			for line := range strings.Lines(b.Text) {
				line = asWritten(strings.TrimSuffix(line, "\n"))
				begin, cut := strings.CutSuffix(line, "...")
				if !slices.ContainsFunc(strings.Split(said, "\n"), func(s string) bool {
					s = asWritten(strings.ReplaceAll(s, etc+"/", ""))
					return s == line || cut && strings.HasPrefix(s, begin)
				}) {
					t.Errorf("line %d: the page shows %q, and the command says:\n%s", b.Line, line, said)
				}
			}
		}
	}
	if ran < 10 {
		t.Errorf("%d commands of the page ran, want 10 or more", ran)
	}
}

// exampleDigest stands in the page for the digest of what is held.
const exampleDigest = "764181e0c5c5d7e2"

var changes = regexp.MustCompile(`20\d\d-\S+ \S+Z \([^)]*\)|[0-9a-f]{16}| --publication default --store \S+`)

// asWritten takes from a line what differs from one run to the next.
func asWritten(line string) string { return changes.ReplaceAllString(line, "") }

// heldSite is a directory store of four racks, in which the publisher holds that one of them leaves.
func heldSite(t *testing.T) string {
	t.Helper()
	site := filepath.Join(t.TempDir(), "site")
	if code, _, errs := quoin(t, "", "demo", "gb200-nvl72x4", "--store", site); code != 0 {
		t.Fatal(errs)
	}
	for i := range 19 {
		if err := os.Remove(filepath.Join(site, "reports", fmt.Sprintf("gb200-%03d.json", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, site, "the change is held", func() bool {
		return holds(filepath.Join(site, "published/slurm/quoin-slurm/publication.json"), "BigChange")
	})
	return site
}

func holds(file, want string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(text), want)
}

// publish runs a publisher on a store until something is so. Slurm is asked and does not answer.
func publish(t *testing.T, site, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"publisher", "--store", site, "--listen", "", "--set", "publicationDefaults.removeAfter=1ms",
			"--set", "publicationDefaults.settleTime=100ms", "--set", "publicationDefaults.loadTimeout=1ms",
			"--set", "publicationDefaults.slurm.scontrol=false"}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	await.Until(t, what, is)
	cancel()
	if code := <-ended; code != 0 {
		t.Fatalf("the publisher ended with %d", code)
	}
}

// digestOf is the digest of what the site holds.
func digestOf(t *testing.T, site string) string {
	t.Helper()
	_, out, _ := quoin(t, "", "plan", "status", "--store", site)
	m := regexp.MustCompile(`quoin plan approve (\w+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("nothing is held:\n%s", out)
	}
	return m[1]
}
