package publisher

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// listed are publications whose GPUs slurmd can't detect by itself: the site chose a Type.
func listed(t *testing.T) []*publication.Cluster {
	t.Helper()
	return complete(t, Publication{Gres: Gres{Types: publication.Types{"NVIDIA GB200": "gb200"}}})
}

// TestLimitSize makes files of 72 nodes for stores that take more, as much, and less.
func TestLimitSize(t *testing.T) {
	const alone = "Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env\n"
	const named = "NodeName=gb200-[001-072] " + alone
	const detect = "AutoDetect=nvidia\n"
	cpu := func() *inputs.Snapshot {
		snap := racks(t)
		snap.Nodes = append(snap.Nodes, inputs.Node{Name: "cpu"})
		return snap
	}
	others := &plandoc.Published{Files: map[string]string{"topology.yaml": "old", "prolog.sh": "12345"}}
	const list = len("NodeName=gb200-[001-072] ")
	for _, tt := range []struct {
		name    string
		snap    *inputs.Snapshot
		old     *plandoc.Published
		limit   func(size int) int
		detects bool
		gres    string
		refused bool
	}{
		{"no limit", racks(t), nil, func(int) int { return 0 }, false, named, false},
		{"all fits", racks(t), nil, func(size int) int { return size }, false, named, false},
		{"a byte less", racks(t), nil, func(size int) int { return size - 1 }, false, alone, false},
		{"without the names it just fits", racks(t), nil, func(size int) int { return size - list }, false, alone, false},
		{"without the names it is too large", racks(t), nil, func(size int) int { return size - list - 1 }, false, named, true},
		{"another file of the store", racks(t), others, func(size int) int { return size + 4 }, false, alone, false},
		{"room for another file", racks(t), others, func(size int) int { return size + 5 }, false, named, false},
		{"a node without GPUs", cpu(), nil, func(size int) int { return size - 1 }, false, named, true},
		{"detected, all fits", racks(t), nil, func(size int) int { return size }, true, named, false},
		{"detected, a byte less", racks(t), nil, func(size int) int { return size - 1 }, true, detect, false},
		{"detected, beside a node without GPUs", cpu(), nil, func(size int) int { return size - 1 }, true, detect, false},
		{"detected, without the names it is too large", racks(t), nil, func(int) int { return 100 }, true, named, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pub := listed(t)[0]
			if tt.detects {
				pub = complete(t, Publication{})[0]
			}
			made, err := Make(pub, pub.Rules.Gather(tt.snap), Previous{})
			if err != nil || made.Refused != "" {
				t.Fatalf("%v %s", err, made.Message)
			}
			l := &loop{outlets: outlets{maxBytes: tt.limit(sizeOf(made.Files))}}
			made.fit(pub, l.room(&stored{set: tt.old}))
			if got := strings.TrimPrefix(made.Files["gres.conf"], "# "+strings.ReplaceAll(plandoc.Header, "\n", "\n# ")+"\n"); got != tt.gres {
				t.Errorf("gres.conf %q, want %q", got, tt.gres)
			}
			if (made.Refused == "TooLarge") != tt.refused || made.Digest != plandoc.Digest(made.Files) {
				t.Errorf("refused %q: %s", made.Refused, made.Message)
			}
			said := 0
			for _, p := range made.Problems {
				if p.Reason == ReasonGresForAll {
					said++
				}
			}
			if (said == 1) != (tt.gres != named) {
				t.Errorf("%d problems %s", said, ReasonGresForAll)
			}
		})
	}
}

// TestTooLargeIsHeld adds a rack that is too large for the store.
func TestTooLargeIsHeld(t *testing.T) {
	pubs := complete(t, Publication{})
	store := newMemory(racksWithout(t, 18))
	made, err := Make(pubs[0], pubs[0].Rules.Gather(store.snap), Previous{})
	if err != nil {
		t.Fatal(err)
	}
	inBubbleWith(t, store, pubs, func(p *Publisher) { p.options.MaxBytes = sizeOf(made.Files) }, func(*Publisher) {
		store.pass(10 * time.Minute)
		before := maps.Clone(store.get("slurm/quoin-slurm").Files)
		store.change(racks(t))
		store.pass(10 * time.Minute)
		got := store.get("slurm/quoin-slurm")
		if reason := got.Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(reason, "TooLarge: the files have ") {
			t.Errorf("held: %q", reason)
		}
		if diff := cmp.Diff(before, got.Files); diff != "" || len(before) == 0 {
			t.Errorf("files (-before +after):\n%s", diff)
		}
	})
}

// TestGresForAllIsRemembered publishes gres.conf without names. A node that loses a GPU or
// its report then keeps its lines, and the change is not counted as one of all nodes.
func TestGresForAllIsRemembered(t *testing.T) {
	pubs := listed(t)
	made, err := Make(pubs[0], pubs[0].Rules.Gather(racks(t)), Previous{})
	if err != nil {
		t.Fatal(err)
	}
	store := newMemory(racks(t))
	limit := sizeOf(made.Files)
	var files []string
	for _, limit := range []int{limit, limit - 1, limit} {
		inBubbleWith(t, store, pubs, func(p *Publisher) { p.options.MaxBytes = limit }, func(*Publisher) {
			store.pass(20 * time.Minute)
			store.change(racks(t, simulated.Fault{Node: "gb200-005", NoReport: true}, simulated.Fault{Node: "gb200-006", GPU: new(1), Lost: true}))
			store.pass(20 * time.Minute)
			got := store.get("slurm/quoin-slurm")
			if reason := got.Annotations[plandoc.AnnotationHeldReason]; reason != "" {
				t.Errorf("held: %s", reason)
			}
			files = append(files, fmt.Sprint(strings.Contains(got.Files["gres.conf"], "NodeName="), strings.Count(got.Files["gres.conf"], "Name=gpu")))
		})
	}
	if diff := cmp.Diff([]string{"true 1", "false 1", "true 1"}, files); diff != "" {
		t.Errorf("gres.conf with names, and its lines (-want +got):\n%s", diff)
	}
}

// TestDetectForAllIsHeld has too little room for the names of published nodes. That slurmd is to
// detect all their GPUs waits for people. A first publication does not wait, nor do names that have
// room again.
func TestDetectForAllIsHeld(t *testing.T) {
	pubs := complete(t, Publication{})
	made, err := Make(pubs[0], pubs[0].Rules.Gather(racks(t)), Previous{})
	if err != nil {
		t.Fatal(err)
	}
	room := sizeOf(made.Files)
	published, first := newMemory(racks(t)), newMemory(racks(t))
	for _, step := range []struct {
		store      *memory
		room       int
		held, gres string
	}{
		{published, room, "", "NodeName="},
		{published, room - 1, "BigChange: the lines of 72 of 72 nodes in gres.conf would change", "NodeName="},
		{first, room - 1, "", "AutoDetect=nvidia"},
		{first, room - 1, "", "AutoDetect=nvidia"},
		{first, room, "", "NodeName="},
	} {
		inBubbleWith(t, step.store, pubs, func(p *Publisher) { p.options.MaxBytes = step.room }, func(*Publisher) {
			step.store.pass(20 * time.Minute)
			step.store.change(racks(t, simulated.Fault{Node: "gb200-005", NoReport: true}))
			step.store.pass(20 * time.Minute)
			got := step.store.get("slurm/quoin-slurm")
			if reason := got.Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(reason, step.held) || step.held == "" && reason != "" {
				t.Errorf("room %d: held %q, want %q", step.room, reason, step.held)
			}
			if !strings.Contains(got.Files["gres.conf"], "\n"+step.gres) {
				t.Errorf("room %d: gres.conf %q, want %s", step.room, got.Files["gres.conf"], step.gres)
			}
		})
	}
}
