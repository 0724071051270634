package publisher

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/test/rig/sites"
)

// The sites of TestTakeOverPlans.
const (
	// twoSizes are racks of two sizes below one root.
	twoSizes = `
groups:
- {name: large, racks: 3, nodes: 8, node: "large-{node:02}", nvlink: rack, tiers: ["leaf-l{rack}", spine], gpus: {count: 4, product: NVIDIA GB200}}
- {name: small, racks: 3, nodes: 4, node: "small-{node:02}", nvlink: rack, tiers: ["leaf-s{rack}", spine], gpus: {count: 4, product: NVIDIA GB200}}
`
	// twoProducts are racks and HGX machines, and nothing names a switch above their leaves.
	twoProducts = `
groups:
- {name: gb200, racks: 3, nodes: 4, node: "gb200-{node:02}", nvlink: rack, tiers: ["leaf-g{rack}"], gpus: {count: 4, product: NVIDIA GB200}}
- {name: h100, racks: 2, nodes: 4, node: "h100-{node:02}", nvlink: node, tiers: ["leaf-h{rack}"], gpus: {count: 8, product: NVIDIA H100 80GB HBM3}}
`
)

// TestTakeOverPlans starts a publisher on the stored plan of an earlier one. The files and the annotations of Nodes
// stay, and there is no new revision. A change that the new publisher wants may be held. -update writes fixtures
// that are missing, and no others: a later publisher may make another first plan of these sites.
func TestTakeOverPlans(t *testing.T) {
	for _, tt := range []struct {
		name, keys string
		snap       *inputs.Snapshot
		contains   string // in topology.yaml
	}{
		{"divided", "slurmVersion: '26.05'", snapshotOf(sites.Parse(t, twoSizes)), "- topology: nvl-4\n"},
		{"roots", "slurmVersion: '26.05'", snapshotOf(sites.Parse(t, twoProducts)), "- switch: fabric-2\n"},
		{"slinky", "slurmNames: slinky:a", podsOn(60).on(t), "- block: nvl-"},
		{"plain", "{}", snapshotOf(sites.Open(t, "hgx-h100")), "- switch: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := filepath.Join("testdata", "takeover", tt.name)
			if _, err := os.Stat(folder); golden.Updating() && errors.Is(err, fs.ErrNotExist) {
				store := newMemory(tt.snap)
				runs(t, store, tt.keys, 0)
				writeTaken(t, folder, store)
			}
			old, taken := readTaken(t, folder), newMemory(tt.snap)
			packed, err := plandoc.Pack(old.plan)
			if err != nil {
				t.Fatal(err)
			}
			taken.published["slurm/quoin-slurm"], taken.plans["default"], taken.notes = old.set.Clone(), packed, maps.Clone(old.notes)
			runs(t, taken, tt.keys, 24*time.Hour)
			got := taken.get("slurm/quoin-slurm")
			if diff := cmp.Diff(old.set.Files, got.Files) + cmp.Diff(old.notes, taken.notes); diff != "" {
				t.Errorf("(-old +new):\n%s", diff)
			}
			for _, key := range []string{plandoc.AnnotationRevision, plandoc.AnnotationDigest} { // further ones may say that a change is held
				if got.Annotations[key] != old.set.Annotations[key] {
					t.Errorf("annotation %s=%s, want %s", key, got.Annotations[key], old.set.Annotations[key])
				}
			}
			if number := taken.plan(t).Current.Number; number != old.plan.Current.Number || taken.annotated > 0 {
				t.Errorf("revision %d, want %d; Nodes were annotated %d times", number, old.plan.Current.Number, taken.annotated)
			}
			got.Files["topology.yaml"] = "" // somebody edits it, and the publisher writes it as the stored plan says
			runs(t, taken, tt.keys, 48*time.Hour)
			if diff := cmp.Diff(old.set.Files, taken.get("slurm/quoin-slurm").Files); diff != "" {
				t.Errorf("edited (-old +new):\n%s", diff)
			}
			if !strings.Contains(old.set.Files["topology.yaml"], tt.contains) {
				t.Errorf("the site is not what it is for: no %q in\n%s", tt.contains, old.set.Files["topology.yaml"])
			}
		})
	}
}

// TestTakeOverOwnNames starts a publisher over a topology file that people wrote. All blocks and switches keep
// their names and places, and nothing is held.
func TestTakeOverOwnNames(t *testing.T) {
	const (
		site = `
groups:
- {name: gb, racks: 2, nodes: 4, node: "gb-{node:02}", nvlink: rack, tiers: ["leaf-{rack}", spine], gpus: {count: 4, product: NVIDIA GB200}}
`
		blocks = "BlockName=rack-b Nodes=gb-[05-08]\nBlockName=rack-a Nodes=gb-[01-04]\nBlockSizes=4\n"
		tree   = "SwitchName=ib1 Nodes=gb-[01-04]\nSwitchName=ib2 Nodes=gb-[05-08]\nSwitchName=core Switches=ib[1-2]\n"
		both   = `
- {topology: nvl, cluster_default: true, block: {block_sizes: [4], blocks: [{block: rack-b, nodes: "gb-[05-08]"}, {block: rack-a, nodes: "gb-[01-04]"}]}}
- {topology: fabric, cluster_default: false, tree: {switches: [{switch: ib1, nodes: "gb-[01-04]"}, {switch: ib2, nodes: "gb-[05-08]"}, {switch: core, children: "ib[1-2]"}]}}
`
	)
	for _, tt := range []struct {
		name, keys   string
		file, theirs string
	}{
		{"blocks", "{slurmVersion: '26.05', format: conf}", "topology.conf", blocks},
		{"a tree", "{slurmVersion: '26.05', format: conf, topology: tree}", "topology.conf", tree},
		{"both", "slurmVersion: '26.05'", "topology.yaml", both},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(snapshotOf(sites.Parse(t, site)))
			store.published["slurm/quoin-slurm"] = &plandoc.Published{Files: map[string]string{tt.file: tt.theirs}}
			runs(t, store, tt.keys, 0)
			set := store.get("slurm/quoin-slurm")
			theirs, err := slurmconf.ParseTopologies(tt.file, []byte(tt.theirs))
			if err != nil {
				t.Fatal(err)
			}
			ours, err := slurmconf.ParseTopologies(tt.file, []byte(set.Files[tt.file]))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(theirs, ours); diff != "" || set.Files[tt.file] == tt.theirs || set.Annotations[plandoc.AnnotationHeld] != "" {
				t.Errorf("held %q (-theirs +ours):\n%s", set.Annotations[plandoc.AnnotationHeld], diff)
			}
			runs(t, store, tt.keys, 24*time.Hour)
			if later := store.get("slurm/quoin-slurm"); !maps.Equal(later.Files, set.Files) || !maps.Equal(later.Annotations, set.Annotations) {
				t.Errorf("later (-before +then):\n%s", cmp.Diff(set, later))
			}
		})
	}
}

// TestTakeOverOtherTopology starts a publisher over a file whose topology has a name that Quoin does not give. The file
// stays, and people are told which partitions name the new topology.
func TestTakeOverOtherTopology(t *testing.T) {
	const file = `- {topology: mine, cluster_default: true, block: {block_sizes: [4], blocks: [{block: rack-a, nodes: "gb-[01-04]"}]}}`
	store := newMemory(snapshotOf(sites.Parse(t, `
groups:
- {name: gb, racks: 1, nodes: 4, node: "gb-{node:02}", nvlink: rack, gpus: {count: 4, product: NVIDIA GB200}}
`)))
	store.published["slurm/quoin-slurm"] = &plandoc.Published{Files: map[string]string{"topology.yaml": file}}
	runs(t, store, "slurmVersion: '26.05'", 0)
	set := store.get("slurm/quoin-slurm")
	if why := set.Annotations[plandoc.AnnotationHeldReason]; set.Files["topology.yaml"] != file || !strings.HasPrefix(why, "TopologiesChange: ") {
		t.Errorf("held because %q:\n%s", why, set.Files["topology.yaml"])
	}
}

// runs lets a publisher run for two hours, so long after the first one began.
func runs(t *testing.T, store *memory, keys string, later time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(later)
		store.changes = make(chan struct{}, 1)
		end := begin(t, &mayDie{mortal: &mortal{memory: store}}, keys)
		store.pass(2 * time.Hour)
		end()
	})
}

// takenOver is what a store holds of a publication.
type takenOver struct {
	plan  *plandoc.Document
	set   *plandoc.Published
	notes map[string]string
}

// writeTaken writes what the store holds: the files, and plan.json, annotations.json and notes.json.
func writeTaken(t *testing.T, folder string, store *memory) {
	t.Helper()
	texts := maps.Clone(store.get("slurm/quoin-slurm").Files)
	for name, value := range map[string]any{"plan.json": store.plan(t), "annotations.json": store.get("slurm/quoin-slurm").Annotations, "notes.json": store.notes} {
		text, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text) + "\n"
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil { //nolint:gosec // a file of the tree
			t.Fatal(err)
		}
	}
}

// readTaken reads what writeTaken wrote.
func readTaken(t *testing.T, folder string) takenOver {
	t.Helper()
	out := takenOver{set: &plandoc.Published{Files: map[string]string{}}}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures: ", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch name := filepath.Base(path); name {
		case "plan.json":
			out.plan, err = plandoc.Unmarshal(text)
		case "annotations.json":
			err = json.Unmarshal(text, &out.set.Annotations)
		case "notes.json":
			err = json.Unmarshal(text, &out.notes)
		default:
			out.set.Files[name] = string(text)
		}
		if err != nil {
			t.Fatal(path, err)
		}
	}
	return out
}
