package publisher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// rackOf is a rack below a root switch.
type rackOf struct {
	root        string
	number, has int
}

// siteOf are racks of one NVLink domain each.
func siteOf(racks ...rackOf) *inputs.Snapshot {
	snap := &inputs.Snapshot{Reports: map[string]*topology.Node{}}
	for _, r := range racks {
		fabric := topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{byte(r.number)}, CliqueID: 1}
		labels := map[string]string{nodelabels.Count: "1"}
		for tier, value := range []string{fmt.Sprintf("leaf-%d", r.number), "spine-" + r.root, r.root} {
			labels[nodelabels.DefaultTiers[tier]] = value
		}
		for k := range r.has {
			name := fmt.Sprintf("r%d-%d", r.number, k)
			report := &topology.Node{Name: name, GPUs: []topology.GPU{{UUID: "GPU-" + name, Product: "NVIDIA GB200", Minor: new(int), Fabric: fabric}}}
			report.Domain = report.Joined()
			snap.Nodes, snap.Reports[name] = append(snap.Nodes, inputs.Node{Name: name, Labels: labels}), report
		}
	}
	return snap
}

// blockTopologies are the block topologies in the file, with how many nodes each has.
func blockTopologies(t *testing.T, m *memory) string {
	t.Helper()
	_, topologies := fileOf(t, m)
	var out []string
	for i := range topologies {
		nodes := 0
		for k := range topologies[i].Blocks {
			nodes += len(topologies[i].Blocks[k].Nodes)
		}
		if topologies[i].Kind == topology.KindBlock {
			out = append(out, fmt.Sprintf("%s %d", topologies[i].Name, nodes))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// approveDigest approves one digest.
func (m *memory) approveDigest(digest string) {
	files := m.get("slurm/quoin-slurm")
	m.edit(func() {
		files.Annotations[plandoc.AnnotationApprove], files.Annotations[plandoc.AnnotationBy] = digest, "ann"
	})
}

// TestHeldSplitLetsRacksIn configures size classes, so that nvl would become nvl-6 and nvl-3. While
// that is held, racks come and go, and the publisher ends and starts again.
func TestHeldSplitLetsRacksIn(t *testing.T) {
	site := []rackOf{{"core", 1, 6}, {"core", 2, 6}, {"core", 3, 3}, {"core", 4, 3}}
	store := newMemory(siteOf(site...))
	inBubble(t, store, complete(t, Publication{BaseBlockSize: 6, MaxChange: new(1.0)}), func() { store.pass(5 * time.Minute) })
	if got := blockTopologies(t, store); got != "nvl 18" {
		t.Fatalf("published %s", got)
	}
	var first plandoc.Held
	want := func(nodes int) {
		t.Helper()
		if got, want := blockTopologies(t, store), fmt.Sprintf("nvl %d", nodes); got != want {
			t.Errorf("published %s, want %s", got, want)
		}
		d, files := store.plan(t), store.get("slurm/quoin-slurm")
		if len(d.Held) != 1 || d.Wanted == nil || len(d.Wanted.BlockTopologies()) != 2 {
			t.Fatalf("held %+v, wanted %+v", d.Held, d.Wanted)
		}
		h := d.Held[0]
		if first.Reason == "" {
			first = h
		}
		if h.Reason != placement.TopologiesChange || !h.Alone || !h.Waits || h.Digest != first.Digest || !h.Since.Equal(first.Since) || files.Annotations[plandoc.AnnotationHeld] != h.Digest {
			t.Errorf("held %+v, was %+v, and the annotation is %q", h, first, files.Annotations[plandoc.AnnotationHeld])
		}
		if text := files.Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(text, "TopologiesChange: ") || !strings.Contains(text, "quoin.dev/approve="+h.Digest) {
			t.Errorf("held reason %q", text)
		}
	}
	pubs := complete(t, Publication{SizeClasses: []int{6, 3}, MaxChange: new(1.0), RemoveAfter: Duration{Duration: time.Minute}})
	inBubble(t, store, pubs, func() {
		store.pass(5 * time.Minute)
		want(18)
		store.edit(func() {})
		store.rests(t, 24*time.Hour)
		store.change(siteOf(append(site, rackOf{"core", 5, 6})...))
		store.pass(5 * time.Minute)
		want(24)
		if note := store.notes["r5-0"]; !strings.HasPrefix(note, "nvl:") {
			t.Errorf("a node of the new rack is annotated %q", note)
		}
		wantKnown(t, store)
		store.change(siteOf(append(site, rackOf{"core", 5, 5}, rackOf{"core", 6, 3})...))
		store.pass(10 * time.Minute)
		want(26)
		for node, all := range store.conditions {
			for _, c := range all {
				if c.True && c.Reason == "PublishedDiffers" {
					t.Errorf("node %s: %s", node, c.Message)
				}
			}
		}
	})
	if n := strings.Count(strings.Join(store.events, " "), "TopologiesChange"); n != 1 {
		t.Errorf("%d events, want one", n)
	}
	later := func(*Publisher) { time.Sleep(48 * time.Hour) }
	inBubbleWith(t, store, pubs, later, func(*Publisher) { // another publisher
		store.pass(5 * time.Minute)
		want(26)
		store.change(siteOf(append(site, rackOf{"core", 5, 5}, rackOf{"core", 6, 3}, rackOf{"core", 7, 2})...))
		store.pass(5 * time.Minute)
		want(28)
		store.approveDigest("0123456789abcdef")
		store.pass(5 * time.Minute)
		if text := store.plan(t).Held[0].Message; !strings.HasSuffix(text, `its value "0123456789abcdef" is another digest`) {
			t.Errorf("held %s", text)
		}
		store.edit(func() { delete(store.notes, "r5-5") }) // its Node has gone
		store.approveDigest(first.Digest)
		store.pass(5 * time.Minute)
		d, files := store.plan(t), store.get("slurm/quoin-slurm")
		if got := blockTopologies(t, store); got != "nvl-3 11, nvl-6 17" && got != "nvl 28, nvl-3 11, nvl-6 17" {
			t.Errorf("approved, published %s", got)
		}
		if len(d.Held) > 0 || d.Wanted != nil || d.Current.Author != "ann" {
			t.Errorf("held %+v after the approval, by %s", d.Held, d.Current.Author)
		}
		for _, key := range []string{plandoc.AnnotationHeld, plandoc.AnnotationHeldReason, plandoc.AnnotationApprove, plandoc.AnnotationBy} {
			if text := files.Annotations[key]; text != "" {
				t.Errorf("annotation %s stays: %q", key, text)
			}
		}
		for range 30 {
			store.edit(func() {})
			store.pass(time.Minute)
			wantKnown(t, store)
		}
		if got := blockTopologies(t, store); got != "nvl-3 11, nvl-6 17" || !strings.HasPrefix(store.notes["r1-0"], "nvl-6:") {
			t.Errorf("published %s, and r1-0 is annotated %q", got, store.notes["r1-0"])
		}
	})
}

// TestHeldRootsHoldARack has a rack of a second fabric come while people have not approved that the two published
// roots are joined. Then the rack waits too, and the decision about that has the lines of the topologies that come.
func TestHeldRootsHoldARack(t *testing.T) {
	site := []rackOf{{"a", 1, 4}, {"a", 2, 4}, {"b", 9, 1}}
	pub := complete(t, Publication{Fabrics: "separate"})[0]
	made := makeOf(t, pub, pub.Rules.Gather(siteOf(site...)), Previous{})
	prev := recalled(t, pub, made)
	pub = complete(t, Publication{})[0]
	made = makeOf(t, pub, pub.Rules.Gather(siteOf(append(site, rackOf{"b", 3, 4})...)), prev)
	said := ""
	for _, f := range made.FilePlan.Problems {
		if f.Reason == placement.TopologiesChange {
			said = f.Message
		}
	}
	if !strings.Contains(said, ": PartitionName=nvl-a Topology=nvl-a Nodes=r1-[0-3],r2-[0-3]; PartitionName=nvl-b Topology=nvl-b Nodes=r3-[0-3]; ") {
		t.Errorf("the change of topologies says %q", said)
	}
}

// TestBigChangeBesideADecision has many nodes leave while a split is held: then all is held. Each is approved by its own digest.
func TestBigChangeBesideADecision(t *testing.T) {
	site := []rackOf{{"core", 1, 6}, {"core", 2, 6}, {"core", 3, 3}, {"core", 4, 3}}
	for _, order := range []string{"all the rest first", "the decision first"} {
		t.Run(order, func(t *testing.T) {
			store := newMemory(siteOf(site...))
			inBubble(t, store, complete(t, Publication{BaseBlockSize: 6}), func() { store.pass(5 * time.Minute) })
			inBubble(t, store, complete(t, Publication{SizeClasses: []int{6, 3}, RemoveAfter: Duration{Duration: time.Minute}}), func() {
				store.pass(5 * time.Minute)
				store.change(siteOf(rackOf{"core", 1, 2}, rackOf{"core", 2, 2}, rackOf{"core", 3, 3}, rackOf{"core", 4, 3}))
				store.pass(15 * time.Minute)
				held := store.plan(t).Held
				if got := blockTopologies(t, store); got != "nvl 18" || len(held) != 2 || held[0].Reason != "BigChange" || held[0].Alone || held[1].Reason != placement.TopologiesChange || !held[1].Alone {
					t.Fatalf("published %s, held %+v", got, held)
				}
				if order == "the decision first" { // it waits for the rest
					store.approveDigest(held[1].Digest)
					store.pass(5 * time.Minute)
					if got, d := blockTopologies(t, store), store.plan(t); got != "nvl 18" || len(d.Held) != 2 || d.Held[0].Digest != held[0].Digest {
						t.Fatalf("published %s, held %+v", got, d.Held)
					}
				}
				store.approveDigest(held[0].Digest)
				store.pass(5 * time.Minute)
				if got, d := blockTopologies(t, store), store.plan(t); got != "nvl 10" || len(d.Held) != 1 || d.Held[0].Digest != held[1].Digest {
					t.Fatalf("published %s, held %+v", got, d.Held)
				}
				store.approveDigest(held[1].Digest)
				store.pass(time.Hour)
				if got, d := blockTopologies(t, store), store.plan(t); !strings.HasSuffix(got, "nvl-3 6, nvl-6 4") || len(d.Held) > 0 {
					t.Errorf("published %s, held %+v", got, d.Held)
				}
			})
		})
	}
}

// TestFirstBlocks has a site publish its first blocks beside a published tree, or another change of a
// topology's kind.
func TestFirstBlocks(t *testing.T) {
	blocks := oneBlock(twenty())
	tree := &topology.Plan{Topologies: []topology.Topology{{Name: topology.FabricTopology, Kind: topology.KindTree, Switches: []topology.Switch{{Name: "leaf", Nodes: twenty()}}}}}
	both := &topology.Plan{Topologies: slices.Concat(blocks.Topologies, tree.Topologies)}
	rack, leaf := siteOf(rackOf{"core", 1, 4}), siteOf(rackOf{"core", 1, 4})
	for i := range rack.Nodes {
		rack.Nodes[i].Labels = nil
		leaf.Reports[leaf.Nodes[i].Name].GPUs[0].Fabric = topology.Fabric{State: topology.FabricNotSupported}
		leaf.Reports[leaf.Nodes[i].Name].Domain = topology.NVLinkDomain{}
	}
	all := siteOf(rackOf{"core", 1, 4})
	conf := func(kind string) *topology.Plan {
		return &topology.Plan{Topologies: []topology.Topology{{Name: topology.ConfTopology, Kind: kind}}}
	}
	annotatedBlocks := Publication{SlurmNames: "slinky", Format: "conf", Topology: topology.KindBlock, Annotate: new(true)}
	annotated := Publication{SlurmNames: "slinky", Format: "conf", Topology: topology.KindTree, Annotate: new(true)}
	for _, tt := range []struct {
		name  string
		pub   Publication
		old   *topology.Plan
		snap  *inputs.Snapshot
		inUse unitsInUse
		want  string
	}{
		{"the first blocks", Publication{}, tree, all, nil, placement.KindChange},
		{"topology: tree is configured", Publication{Topology: topology.KindTree}, tree, all, nil, ""},
		{"topology: block is configured", Publication{Topology: topology.KindBlock}, tree, all, nil, ""},
		{"the default topology is the tree", Publication{DefaultTopology: topology.FabricTopology}, tree, all, nil, ""},
		{"the default topology is flat", Publication{DefaultTopology: topology.FlatTopology, FlatTopology: true}, tree, all, nil, ""},
		{"no blocks yet", Publication{}, tree, leaf, nil, ""},
		{"blocks are published", Publication{}, both, all, nil, ""},
		{"no tree is published", Publication{}, &topology.Plan{}, rack, nil, ""},
		{"blocks in use would become switches", annotated, conf(topology.KindBlock), all, unitsInUse{topology.ConfTopology + ":": true}, placement.TopologyInUse},
		{"blocks that no annotation names would become switches", annotated, conf(topology.KindBlock), all, unitsInUse{}, ""},
		{"blocks in use stay blocks", annotatedBlocks, conf(topology.KindBlock), all, unitsInUse{topology.ConfTopology + ":": true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts, got := complete(t, Publication{})[0].Rules.Gather(tt.snap).Facts, ""
			pub := complete(t, tt.pub)[0]
			pub.FabricSite(tt.old, nil).Judge(facts, nil)
			at := makePlan(pub, &gathered{Inputs: inputs.Inputs{Facts: facts}, prev: Previous{Plan: tt.old}, inUse: tt.inUse}, nil, everyDecision)
			for _, d := range at.found.Choices {
				if d.Kind == placement.KindChange || d.Kind == placement.TopologyInUse {
					got += d.Kind
				}
			}
			if got != tt.want {
				t.Errorf("decisions %q, want %q", got, tt.want)
			}
		})
	}
}

// TestKeep decides about decisions that no plan can keep, or that cannot be published when they are approved.
func TestKeep(t *testing.T) {
	lost := func(name string) placement.Decision {
		return placement.Decision{Kind: placement.TopologiesChange, Subject: name, From: name}
	}
	plan := func(has string, waiting ...placement.Decision) *Rendered {
		p, choices, names := &topology.Plan{}, []placement.Choice{}, strings.Fields(has)
		for _, d := range waiting {
			choices = append(choices, placement.Choice{Decision: d, Waits: true})
		}
		for _, n := range names {
			p.Topologies = append(p.Topologies, topology.Topology{Name: n, Kind: topology.KindBlock, Sizes: []int{4}, Blocks: []topology.Block{{Name: "b" + n, Nodes: []string{"n" + n}}}})
		}
		return &Rendered{Plan: p, Digest: has, found: placement.Waiting{Choices: choices}}
	}
	a, b, c := lost("nvl-a"), lost("nvl-b"), lost("nvl-c")
	kept := plan("nvl-a nvl-b nvl-c", b, c)
	in := &gathered{prev: Previous{Plan: kept.Plan}}
	refused := plan("nvl-a nvl-c", c)
	refused.Refused, refused.Message = "TooLarge", "5 bytes"
	noPlan := &Rendered{Refused: "NoPlan", Message: "block size 27", found: kept.found}
	for _, tt := range []struct {
		name       string
		approve    string
		unapproved *Rendered
		follows    *Rendered // the decision that is approved
		made       string
		all        string // that is kept
		held       string // digests, with a ! if all is held
		says       string
	}{
		{"both are kept", "", kept, nil, "nvl-a nvl-b nvl-c", "nvl-a nvl-b nvl-c", b.Digest() + " " + c.Digest(), ""},
		{"one cannot be kept", "", plan("nvl-a nvl-c", b, c), nil, "nvl-a nvl-c", "nvl-a nvl-c", "!" + b.Digest() + " " + c.Digest(), ""},
		{"one is approved", b.Digest(), kept, plan("nvl-a nvl-c", c), "nvl-a nvl-c", "nvl-a nvl-b nvl-c", c.Digest(), ""},
		{"one is approved, and both cannot be kept", b.Digest(), noPlan, plan("nvl-a nvl-c", c), "nvl-a nvl-c", "nvl-a nvl-c", c.Digest(), ""},
		{"one is approved and too large", b.Digest(), kept, refused, "nvl-a nvl-b nvl-c", "nvl-a nvl-b nvl-c",
			b.Digest() + " " + c.Digest(), "cannot be published: TooLarge: 5 bytes"},
		{"one is approved that takes a third with it", b.Digest(), kept, plan("nvl-c nvl-d", a, c), "nvl-a nvl-b nvl-c", "nvl-a nvl-b nvl-c",
			b.Digest() + " " + c.Digest(), "cannot be published alone: block topology nvl-a would give way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := keep(in, tt.unapproved, tt.approve, func(waits func(placement.Decision) bool) *Rendered {
				if tt.follows == nil || waits(b) || !waits(c) {
					t.Error("the plan does not follow the approved decision alone")
				}
				return tt.follows
			})
			var held []string
			says := ""
			for _, h := range k.held {
				mark := "!"
				if h.Alone {
					mark = ""
				}
				held, says = append(held, mark+h.Digest), says+h.Message
			}
			got := []string{k.made.Digest, k.unapproved.Digest, strings.Join(held, " ")}
			if approved := k.approved != nil && k.approved.Digest == tt.approve; approved != (tt.approve != "" && tt.says == "") {
				t.Errorf("approved: %+v", k.approved)
			}
			if diff := cmp.Diff([]string{tt.made, tt.all, tt.held}, got); diff != "" || !strings.Contains(says, tt.says) {
				t.Errorf("(-want +got):\n%s\n%s", diff, says)
			}
		})
	}
}

// TestApprovedBeforeTheRoots approves first that a topology gives way, which needs that two roots are joined. The
// approval stays, and says what is missing.
func TestApprovedBeforeTheRoots(t *testing.T) {
	store := newMemory(siteOf(rackOf{"a", 1, 4}, rackOf{"a", 2, 4}, rackOf{"b", 3, 4}))
	inBubble(t, store, complete(t, Publication{Fabrics: "separate", Annotate: new(false)}), func() { store.pass(5 * time.Minute) })
	inBubble(t, store, complete(t, Publication{Annotate: new(false)}), func() {
		store.pass(5 * time.Minute)
		held := store.plan(t).Held
		if len(held) != 2 || held[1].Reason != placement.TopologiesChange {
			t.Fatalf("held %+v", held)
		}
		store.approveDigest(held[1].Digest)
		store.pass(10 * time.Minute)
		now := store.plan(t).Held
		if approved := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationApprove]; approved != held[1].Digest || len(now) != 2 || !strings.Contains(now[1].Message, "changes nothing before another decision is approved") {
			t.Errorf("approved %q, held %+v", approved, now)
		}
		for _, h := range held {
			store.approveDigest(h.Digest)
			store.pass(10 * time.Minute)
		}
		if got, now := blockTopologies(t, store), store.plan(t).Held; got != "nvl-a 12" || len(now) > 0 {
			t.Errorf("published %s, held %+v", got, now)
		}
	})
}
