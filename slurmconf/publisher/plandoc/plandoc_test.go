package plandoc

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// plan is one with two blocks, a tree, devices and reasons.
func plan(first, second string) Plan {
	return Plan{Format: "yaml", Devices: gresLines("NodeName=n[1-3] Name=gpu Type=gb200 File=/dev/nvidia[0-3]"), Plan: topology.Plan{
		Topologies: []topology.Topology{
			{Name: "nvl", Default: true, Kind: "block", Sizes: []int{2}, Blocks: []topology.Block{{Name: "nvl-1", Nodes: hosts.In(first), Size: 2}, {Name: "nvl-2", Nodes: hosts.In(second), Size: 2}, {Name: "nvl-3"}}},
			{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "l1", Nodes: hosts.In(first)}, {Name: "l2", Nodes: hosts.In(second)}, {Name: "s", Children: hosts.In("l[1-2]")}}},
			{Name: "flat", Kind: "flat"},
		},
		Nodes:    []topology.Placement{{SlurmName: "n1", Node: "n1", Source: "nvml", Reason: "Placed"}, {SlurmName: "n2", Node: "host-2", Source: "nvml", Reason: "Placed"}, {SlurmName: "n3", Node: "n3", Source: "label", Reason: "Placed"}, {SlurmName: "n9", Node: "n9", Reason: "NoGPUs", Message: "no GPU"}},
		Problems: []topology.Finding{{Subject: topology.Subject{Node: "n9"}, Reason: "NoGPUs", Message: "no GPU"}},
	}}
}

// gresLines reads lines of gres.conf.
func gresLines(texts ...string) []gres.Line {
	lines, err := gres.Parse("gres.conf", []byte(strings.Join(texts, "\n")))
	if err != nil {
		panic(err)
	}
	return lines
}

func document() *Document {
	d := New("default", "slurm/quoin-slurm")
	d.Add(Revision{Time: noon, Author: "quoin-publisher", Why: "first", Digest: "a", Plan: plan("n[1-2]", "n3")})
	d.Add(Revision{Time: noon.Add(time.Hour), Author: "ann", Why: "n2 moves", Digest: "b", Plan: plan("n1", "n[2-3]")})
	wanted := plan("n[1-3]", "")
	d.Held, d.Wanted = []Held{{Since: noon, Reason: "BigChange", Message: "too much", Digest: "c", Waits: true}, {Since: noon, Reason: "X", Digest: "d", Alone: true}}, &wanted
	d.Groups = []switches.Group{{Name: "l1", Switches: []string{"2c5eab0300000100", "2c5eab0300000200"}}, {Name: "s", Tier: 1, Switches: []string{"2c5eab0300000300"}}}
	d.RolledBack, d.Leaving = 1, []string{"host-7"}
	d.Remember(noon, []string{"n2"}, nil)
	return d
}

func TestRoundTrip(t *testing.T) {
	for name, d := range map[string]*Document{"empty": New("a", "b/c"), "full": document()} {
		t.Run(name, func(t *testing.T) {
			text, err := Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			read, err := Unmarshal(text)
			if diff := cmp.Diff(d, read); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			packed, err := Pack(d)
			if err != nil {
				t.Fatal(err)
			}
			read, err = Unpack(packed)
			if diff := cmp.Diff(d, read); err != nil || diff != "" {
				t.Errorf("packed: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestMarshalSorts(t *testing.T) {
	sorted, mixed := document(), document()
	for _, p := range []*Plan{&mixed.Current.Plan, mixed.Wanted, &mixed.History[0].Plan} {
		p.Nodes[0], p.Nodes[3] = p.Nodes[3], p.Nodes[0]
	}
	mixed.Leaving, sorted.Leaving = []string{"b", "a"}, []string{"a", "b"}
	want, err := Marshal(sorted)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Marshal(mixed)
	if err != nil || !bytes.Equal(want, got) {
		t.Errorf("%v\n%s\n%s", err, want, got)
	}
	if mixed.Current.Plan.Nodes[0].SlurmName != "n9" {
		t.Error("Marshal changed the document")
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	text, err := Marshal(document())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"no JSON", string(text), "{", "unexpected EOF"},
		{"an unknown field", `"place"`, `"palace"`, `unknown object member name "palace"`},
		{"another kind", `"Plan"`, `"Plans"`, "want Plan"},
		{"a later version", "v1alpha1", "v2", "want Plan of quoin.dev/v1alpha1"},
		{"text behind", "}\n", "}{}", "after top-level value"},
		{"a broken list", "n[1-2]", "n[1-", "n[1-"},
		{"a broken line", "Name=gpu", "Nme=gpu", "Nme"},
		{"a format", `"yaml"`, `"xml"`, `format "xml": want yaml or conf`},
		{"a kind of topology", `"tree"`, `"ring"`, `kind "ring": want block, tree or flat`},
		{"numbers that do not fall", `"number":1`, `"number":2`, "revision 2 after revision 2"},
		{"a number below 0", `"number":2`, `"number":-2`, "revision -2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Unmarshal([]byte(strings.ReplaceAll(string(text), tt.old, tt.new))); err == nil || !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestUnmarshalBoundsNames refuses host lists that a short text makes large together. Each of
// them alone is allowed.
func TestUnmarshalBoundsNames(t *testing.T) {
	const list = "n[1-65536]" // a 64th of what a document may have, and a 16th of what moves may
	plans := func(count, lists int) *Document {
		d := document()
		d.Current.Number, d.History = count, nil
		for number := count - 1; number > 0; number-- {
			p := plan("n1", "")
			for i := range lists {
				p.Topologies = append(p.Topologies, topology.Topology{Name: fmt.Sprint(i), Kind: topology.KindTree, Switches: []topology.Switch{{Name: "s", Nodes: topology.Names{list}}}})
			}
			d.History = append(d.History, Revision{Number: number, Plan: p})
		}
		return d
	}
	grouped := func(n int) *Document {
		d := document()
		d.Groups = []switches.Group{{Name: "a", Switches: make([]string, 2)}, {Name: "b", Switches: make([]string, n-2)}}
		return d
	}
	moves := func(lists int) *Document {
		d := document()
		d.Moves = nil
		for range lists {
			d.Moves = append(d.Moves, Step{Places: list})
		}
		return d
	}
	for _, tt := range []struct {
		name string
		d    *Document
		want string
	}{
		{"switches", grouped(1 << 17), ""},
		{"too many switches", grouped(1<<17 + 1), "groups: more than 131072 switches"},
		{"too large plans", plans(11, 7), "more than 4194304 names in one document"},
		{"moves", moves(16), ""},
		{"too many moves", moves(17), "moves: more than 1048576 names"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := Marshal(tt.d)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Unmarshal(text); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestUnpackIsBounded(t *testing.T) {
	d := New("a", "b/c")
	d.Held = []Held{{Reason: "X", Message: strings.Repeat("a", MaxUnpacked)}}
	packed, err := Pack(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{packed, packed[:len(packed)/2], []byte("x"), nil} {
		if _, err := Unpack(data); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%d bytes: %v", len(data), err)
		}
	}
}

// TestPackMakesRoom packs plans that cannot be compressed.
func TestPackMakesRoom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(bytes int) string {
		var b strings.Builder
		for b.Len() < bytes {
			fmt.Fprintf(&b, "%016x", random.Uint64())
		}
		return b.String()
	}
	with := func(messages int) Plan {
		p := plan("n[1-2]", "n3")
		p.Nodes = []topology.Placement{{SlurmName: "n1", Node: "n1", Reason: "X", Message: noise(messages)}}
		return p
	}
	for _, tt := range []struct {
		name              string
		revisions         int
		each, wanted      int
		history           int
		hasWanted, reason bool
	}{
		{"all fits", 11, 1 << 10, 1 << 10, 10, true, true},
		{"half of the history", 11, 200 << 10, 1 << 10, 5, true, true},
		{"no history", 2, 1200 << 10, 200 << 10, 0, true, true},
		{"no wanted plan", 2, 1200 << 10, 1200 << 10, 0, false, true},
		{"no reasons", 2, 2400 << 10, 1 << 10, 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := New("a", "b/c")
			for range tt.revisions {
				d.Add(Revision{Plan: with(tt.each)})
			}
			wanted := with(tt.wanted)
			d.Held, d.Wanted = []Held{{Reason: "BigChange"}}, &wanted
			packed, err := Pack(d)
			if err != nil || len(packed) > MaxPacked {
				t.Fatal(len(packed), err)
			}
			got, err := Unpack(packed)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.History) != tt.history || (got.Wanted != nil) != tt.hasWanted || (got.Current.Plan.Nodes != nil) != tt.reason || got.Current.Number != tt.revisions {
				t.Errorf("history %d, wanted plan %v, reasons %v, revision %d", len(got.History), got.Wanted != nil, got.Current.Plan.Nodes != nil, got.Current.Number)
			}
			if len(d.History) != tt.revisions-1 || d.Wanted == nil {
				t.Error("Pack changed the document")
			}
		})
	}
	d := New("a", "b/c")
	d.Held = []Held{{Message: noise(2400 << 10)}}
	if _, err := Pack(d); err == nil || !strings.Contains(err.Error(), "fit") {
		t.Errorf("%v", err)
	}
}

func TestHistory(t *testing.T) {
	for _, tt := range []struct {
		// each letter is a revision, m one that only changed members.
		name, revisions, kept string
	}{
		{"none", "", "0"},
		{"ten and the current one", "UUUUUUUUUUU", "11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1"},
		{"the oldest goes", "UUUUUUUUUUUUUU", "14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4"},
		{"the oldest of members goes", "UmUmUmmmmmmmmm", "14, 13, 12, 11, 10, 9, 8, 7, 5, 3, 1"},
		{"members only", "Ummmmmmmmmmmmm", "14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 1"},
		{"members all day", "UUU" + strings.Repeat("m", 60), "63, 62, 61, 60, 59, 58, 57, 56, 3, 2, 1"},
		{"members between more changes than are kept", "UUmUmUmUmUUmmmmmm", "17, 16, 15, 14, 13, 12, 11, 10, 8, 6, 4"},
		{"the newest stay", "UUUUUUUUmmmmmm", "14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := New("a", "b/c")
			for _, kind := range tt.revisions {
				d.Add(Revision{Plan: plan("n1", "n2"), OnlyMembers: kind == 'm'})
			}
			if diff := cmp.Diff(tt.kept, d.Numbers()); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if err := d.check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFind(t *testing.T) {
	d := New("a", "b/c")
	for range 14 {
		d.Add(Revision{Plan: plan("n1", "n2")})
	}
	if d.Find(4).Number != 4 || d.Find(3) != nil || d.Find(14) != &d.Current || New("a", "b").Find(0) != nil {
		t.Errorf("revisions %s", d.Numbers())
	}
}

func TestCompare(t *testing.T) {
	old, next := plan("n[1-2]", "n3"), plan("n1", "n[2-4]")
	next.Nodes = append(next.Nodes[:2:2], topology.Placement{SlurmName: "n4", Node: "n4", Reason: "Placed", Source: "label"})
	next.Topologies[0].Sizes, next.Topologies[0].Blocks[2].Name = []int{4}, "nvl-4"
	next.Devices = gresLines("NodeName=n[2-4] Name=gpu Type=gb200 File=/dev/nvidia[0-3]")
	c := Diff(&old, &next)
	var moves []string
	for i := range c.Moves {
		moves = append(moves, c.Moves[i].String())
	}
	if diff := cmp.Diff([]string{"n2 moves from nvl-1 at l1 to nvl-2 at l2: NVML twice since boot", "n4 joins nvl-2 at l2: its labels"}, moves); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"block nvl-4 is new", "topology nvl: block with block sizes [2] becomes block with block sizes [4]", "block nvl-3 goes"}, c.Units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n1", "n4"}, c.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	const want = "n2 moves from nvl-1 at l1 to nvl-2 at l2: NVML twice since boot; more nodes: 1; block nvl-4 is new; more blocks and switches: 2; gres.conf: the lines of 2 nodes; " +
		"fewer GPUs than before on n1: slurm.conf must follow (Gres=), or slurmctld drains it"
	if got := c.Summary(1); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	next.Detect = "nvidia"
	detected := Diff(&old, &next)
	if got := detected.Summary(9); !strings.Contains(got, "; gres.conf: lines by node becomes AutoDetect=nvidia for all nodes; ") || !strings.Contains(got, "; the GPUs of 2 nodes, which slurmd detects; fewer GPUs than before on n1: ") {
		t.Error(got)
	}
	next.Gres = gresLines("AutoDetect=nvidia", "NodeName=n[2-3] Name=gpu File=/dev/nvidia0 AutoDetect=off")
	named := Diff(&old, &next)
	if got := named.Summary(9); !strings.Contains(got, "; gres.conf: lines by node becomes AutoDetect=nvidia, and lines of n[2-3]; ") {
		t.Errorf("with names: %q", got)
	}
	next.Gres = nil
	gone := Diff(&next, &old)
	if got := gone.Moves[1].String(); got != "n4 leaves nvl-2 at l2: no node has this name now" {
		t.Error(got)
	}
	if same := Diff(&old, &old); !same.None() || same.Summary(9) != "" {
		t.Errorf("%+v", same)
	}
}

// TestFewer has nodes whose lines of gres.conf give fewer devices than before.
func TestFewer(t *testing.T) {
	const mig = "Name=gpu Type=a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap"
	all := func(nodes string, lines ...string) (out []string) {
		for _, l := range lines {
			out = append(out, "NodeName="+nodes+" "+l)
		}
		return out
	}
	four := all("n[1-2]", mig+"1", mig+"2", mig+"3", mig+"4")
	for name, tt := range map[string]struct {
		old, next []string
		want      []string
	}{
		"the same":                {four, four, nil},
		"a MIG instance is gone":  {four, append(all("n1", mig+"1", mig+"2", mig+"3"), all("n2", mig+"1", mig+"2", mig+"3", mig+"4")...), []string{"n1"}},
		"one more":                {four, append(all("n1", mig+"5"), four...), nil},
		"GPUs become instances":   {all("n1", "Name=gpu Type=a100 File=/dev/nvidia[0-1]"), all("n1", mig+"1", mig+"2", mig+"3"), []string{"n1"}},
		"another Type of as many": {all("n1", "Name=gpu Type=a100 File=/dev/nvidia0"), all("n1", "Name=gpu Type=a30 File=/dev/nvidia0"), []string{"n1"}},
		"all lines are gone":      {four, all("n2", mig+"1", mig+"2", mig+"3", mig+"4"), []string{"n1"}},
		"it detects them now":     {all("n1", "Name=gpu Type=a100 File=/dev/nvidia0"), all("n1", "AutoDetect=nvidia"), nil},
		"it leaves":               {append(all("n9", mig+"1"), four...), four, nil},
	} {
		old, next := plan("n[1-2]", "n3"), plan("n[1-2]", "n3")
		old.Devices, next.Devices = gresLines(tt.old...), gresLines(tt.next...)
		c := Diff(&old, &next)
		if diff := cmp.Diff(tt.want, c.Fewer); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, want := MustFollow([]string{"n1", "n2"}), "fewer GPUs than before on n[1-2]: slurm.conf must follow (Gres=), or slurmctld drains them"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCompareNames has Nodes whose names in Slurm change.
func TestCompareNames(t *testing.T) {
	named := func(first, second string, nodes ...topology.Placement) *Plan {
		p := plan(first, second)
		p.Nodes = nodes
		return &p
	}
	placed := func(name, node string) topology.Placement {
		return topology.Placement{SlurmName: name, Node: node, Reason: "Placed", Source: "label"}
	}
	old := named("n1", "n2", placed("n1", "k1"), placed("n2", "k2"))
	for _, tt := range []struct {
		name string
		next *Plan
		want []string
		only bool
	}{
		{"a new name", named("m1", "n2", placed("m1", "k1"), placed("n2", "k2")), []string{"m1 is the new name of n1 in nvl-1"}, true},
		{"new names in one block", named("m[1-2]", "", placed("m1", "k1"), placed("m2", "k2")), []string{"m1 is the new name of n1 in nvl-1", "m2, which was n2, moves from nvl-2 at l2 to nvl-1 at l1: its labels"}, false},
		{"new names everywhere", named("m1", "m2", placed("m1", "k1"), placed("m2", "k2")), []string{"m[1-2] are the new names of n[1-2], each in its place"}, true},
		{"new names in another order", named("m2", "m1", placed("m2", "k1"), placed("m1", "k2")), []string{"m[1-2] are the new names of n[1-2], each in its place, not in the order of the names"}, true},
		{"nobody stays", named("", ""), []string{"n1 leaves nvl-1 at l1: no node has this name now", "n2 leaves nvl-2 at l2: no node has this name now"}, true},
		{"a new name in another place", named("", "m1,n2", placed("m1", "k1"), placed("n2", "k2")), []string{"m1, which was n1, moves from nvl-1 at l1 to nvl-2 at l2: its labels"}, false},
		{"a new name, and the old one belongs to another Node", named("n1", "m2", placed("n1", "k2"), placed("m2", "k1")),
			[]string{"m2 joins nvl-2 at l2: its labels", "n2 leaves nvl-2 at l2: no node has this name now"}, true},
		{"another Node", named("m1", "n2", placed("m1", "k3"), placed("n2", "k2")), []string{"m1 joins nvl-1 at l1: its labels", "n1 leaves nvl-1 at l1: no node has this name now"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Diff(old, tt.next)
			c.Devices = nil
			if diff := cmp.Diff(tt.want, c.Sentences(hostlist.Compress)); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
			if only := c.OnlyMembers(); only != tt.only {
				t.Errorf("OnlyMembers %t, want %t", only, tt.only)
			}
		})
	}
}

func TestComparePolicy(t *testing.T) {
	old, next := plan("n1", "n2"), plan("n1", "n2")
	next.Policy = map[string]string{"baseBlockSize": "18", "sizeClasses": "[18, 9]"}
	if c := Diff(&old, &next); !c.None() {
		t.Errorf("a plan of a release that stored no policy differs: %+v", c)
	}
	old.Policy = map[string]string{"baseBlockSize": "9", "minBlockNodes": "2"}
	want := []string{"key baseBlockSize: 9 becomes 18", "key sizeClasses is [18, 9] now", "key minBlockNodes goes"}
	if diff := cmp.Diff(want, Diff(&old, &next).Units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

func TestRecent(t *testing.T) {
	d := New("a", "b/c")
	d.Remember(noon, []string{"n1", "n2"}, nil)
	d.Remember(noon.Add(30*time.Minute), []string{"n2", "n3"}, []string{"n9"})
	for _, tt := range []struct {
		after           time.Duration
		places, devices int
	}{{0, 3, 1}, {59 * time.Minute, 3, 1}, {time.Hour, 2, 1}, {2 * time.Hour, 0, 0}, {-time.Hour, 3, 1}} {
		if places, devices := d.Recent(noon.Add(tt.after)); len(places) != tt.places || len(devices) != tt.devices {
			t.Errorf("after %s: %v, %v", tt.after, places, devices)
		}
	}
	for i := range 100 {
		d.Remember(noon.Add(30*time.Minute), []string{fmt.Sprintf("m%d", i)}, []string{fmt.Sprintf("d%d", i)})
	}
	if places, devices := d.Recent(noon.Add(30 * time.Minute)); len(d.Moves) != maxSteps || len(places) != 103 || len(devices) != 101 {
		t.Errorf("%d steps, %d nodes, devices of %d nodes", len(d.Moves), len(places), len(devices))
	}
	d.Remember(noon.Add(3*time.Hour), nil, nil)
	if len(d.Moves) != 0 {
		t.Errorf("steps are kept: %v", d.Moves)
	}
}

func TestFromFiles(t *testing.T) {
	const yaml = "- {topology: nvl, cluster_default: true, block: {block_sizes: [2], blocks: [{block: a, nodes: 'n[1-2]'}, {block: b}]}}\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // format, or the start of the error
	}{
		{"yaml", map[string]string{"topology.yaml": yaml, "gres.conf": "NodeName=n1 Name=gpu File=/dev/nvidia0\n"}, "yaml"},
		{"lines for all nodes", map[string]string{"topology.yaml": yaml, "gres.conf": "Name=gpu File=/dev/nvidia0\n"}, "yaml"},
		{"conf", map[string]string{"topology.conf": "BlockName=a Nodes=n[1-2]\nBlockSizes=2\n"}, "conf"},
		{"no file", nil, "no topology file and no gres.conf"},
		{"gres.conf without a line", map[string]string{"gres.conf": "# nothing\n"}, "no topology file and no gres.conf"},
		{"broken", map[string]string{"topology.yaml": "- ["}, "topology.yaml"},
		{"a broken list", map[string]string{"topology.conf": "BlockName=a Nodes=n[1-\nBlockSizes=2\n"}, "topology.conf:1: host list "},
		{"a broken list in gres.conf", map[string]string{"topology.yaml": yaml, "gres.conf": "NodeName=n[1- Name=gpu Count=4\n"}, `gres.conf:1: NodeName: host list "n[1-": `},
		{"broken gres.conf", map[string]string{"topology.yaml": yaml, "gres.conf": "x\n"}, "gres.conf:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := FromFiles(tt.files)
			if err != nil {
				if !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if made, err := p.Files(); err != nil || p.AllNodes != (tt.name == "lines for all nodes") || p.AllNodes && (strings.Contains(made["gres.conf"], "NodeName") || p.Devices[0].Nodes != "n[1-2]") {
				t.Errorf("%v %+v, files %v", err, p, made)
			}
			if p.Format != tt.want || p.Topologies[0].Blocks[0].Size != 2 || len(p.Places()) != 2 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestFromGresAlone makes a plan of a gres.conf without a topology file, and the same files of it.
func TestFromGresAlone(t *testing.T) {
	for _, lines := range []string{"NodeName=n[1-2] Name=gpu File=/dev/nvidia0\n", "Name=gpu File=/dev/nvidia0\n",
		"AutoDetect=nvidia\nNodeName=n[1-2] Name=gpu File=/dev/nvidia0 AutoDetect=off\n"} {
		p, err := FromFiles(map[string]string{"gres.conf": lines})
		if err != nil || len(p.Topologies) > 0 || len(p.Devices) != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		files, err := p.Files()
		if _, text, _ := strings.Cut(files["gres.conf"], "overwritten.\n"); err != nil || len(files) != 1 || text != lines {
			t.Errorf("files %v, %v, want %s", files, err, lines)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, d := range []*Document{New("a", "b/c"), document()} {
		text, err := Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 10000 {
			return
		}
		d, err := Unmarshal(text)
		if err != nil {
			return
		}
		first, err := Marshal(d)
		if err != nil {
			return // a time that JSON does not hold
		}
		read, err := Unmarshal(first)
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		second, err := Marshal(read)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%v\n%s\n%s", err, first, second)
		}
		_ = Diff(&d.Current.Plan, &Plan{})
	})
}
