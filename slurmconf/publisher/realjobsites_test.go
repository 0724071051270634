package publisher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// jobSite is a site as people have them.
type jobSite struct {
	name, groups string
	// topologies are the block topologies that the plan has, with their base.
	topologies map[string]int
	// impossible are the sizes that JobSizesImpossible names.
	impossible map[string]string
	keys       Publication
}

const (
	gb200 = "platform: true, gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}}\n"
	hgx   = "gpus: {count: 8, product: NVIDIA H100 80GB HBM3, memoryMiB: 81559, numaNodes: 2, cpus: 112, nvlinks: 18}}\n"
)

// threeFabrics are racks below three root switches.
const threeFabrics = `groups:
- {name: a, racks: 4, nodes: 18, node: "a-{rack}-{tray:02}", nvlink: rack, tiers: ["leaf-a{rack}", spine-a, east], ` + gb200 +
	`- {name: b, racks: 2, nodes: 18, node: "b-{rack}-{tray:02}", nvlink: rack, tiers: ["leaf-b{rack}", spine-b, west], ` + gb200 +
	`- {name: c, racks: 2, nodes: 9, node: "c-{rack}-{tray:02}", nvlink: rack, tiers: ["leaf-c{rack}", spine-c, north], ` + gb200

func jobSites() []jobSite {
	straggler, late := "faults:\n", &strings.Builder{}
	for n := 5; n <= 18; n++ {
		fmt.Fprintf(late, "- {node: gb-4-%02d, absent: true}\n", n)
	}
	return []jobSite{
		{"mixed racks", `groups:
- {name: a, racks: 4, nodes: 18, node: "gb-{rack}-{tray:02}", nvlink: rack, tiers: ["leaf-a{rack}", spine], ` + gb200 +
			`- {name: b, racks: 4, nodes: 9, node: "half-{rack}-{tray:02}", nvlink: rack, tiers: ["leaf-b{rack}", spine], ` + gb200 +
			"faults:\n- {node: gb-2-17, absent: true}\n- {node: gb-3-18, absent: true}\n",
			map[string]int{"nvl-18": 18, "nvl-9": 9}, map[string]string{"nvl-18": "54"}, Publication{SizeClasses: []int{18, 9}}},
		{"three fabrics", threeFabrics, map[string]int{"nvl-east": 18, "nvl-west": 18, "nvl-north": 9}, nil, Publication{Fabrics: "separate"}},
		{"three switches that no label joins", threeFabrics, map[string]int{"nvl": 18}, map[string]string{"nvl": "118-126"}, Publication{}},
		{"a straggler", `groups:
- {name: a, racks: 4, nodes: 18, node: "gb-{rack}-{tray:02}", nvlink: rack, tiers: ["leaf-{rack}", spine], ` + gb200 + straggler + late.String(),
			map[string]int{"nvl": 18}, nil, Publication{}},
		{"HGX beside NVL72", `groups:
- {name: a, racks: 4, nodes: 18, node: "gb-{rack}-{tray:02}", nvlink: rack, tiers: ["leaf-a{rack}", spine], ` + gb200 +
			`- {name: h, racks: 4, nodes: 8, node: "hgx-{rack}-{tray:02}", nvlink: node, tiers: ["leaf-h{rack}", spine], ` + hgx,
			map[string]int{"nvl": 18}, nil, Publication{}},
		{"NVL36x2", `groups:
- {name: a, racks: 4, nodes: 18, node: "gb-{node/9}-{node:03}", nvlink: rack, tiers: ["leaf-{node/9}", spine], ` + gb200,
			map[string]int{"nvl": 18}, nil, Publication{}},
	}
}

// TestRealJobSites renders sites as people have them, loads each in a real slurmctld, and
// asks for jobs of the sizes that people use in each partition: slurmctld takes the jobs
// that the plan says can run, and no others.
func TestRealJobSites(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, site := range jobSites() {
		t.Run(site.name, func(t *testing.T) {
			t.Parallel()
			made, lines := site.render(t)
			site.comparePlan(t, made.Plan)
			partitions := partitionsOf(made)
			for _, p := range partitions {
				lines = append(lines, p.line())
			}
			jobs := &strings.Builder{}
			for _, p := range partitions {
				for _, n := range p.sizes() {
					for _, segment := range p.segments(n) {
						fmt.Fprintln(jobs, p.name, n, segment)
					}
				}
			}
			files := map[string]string{"jobs": jobs.String(), "ask.sh": `while read -r partition n segment; do
	option=; [ "$segment" = 0 ] || option=--segment=$segment
	said=$(sbatch --test-only -p $partition -N $n --gpus-per-node=4 $option --wrap true 2>&1)
	echo "$partition $n $segment ${said//$'\n'/ }"
done </etc/slurm/jobs
`}
			maps.Copy(files, made.Files)
			cluster := slurmrig.StartTest(t, slurmrig.Slurm2605, slurmrig.Config{SlurmConf: strings.Join(lines, "\n") + "\n", Files: files})
			out := cluster.RunTest(t, "bash", "/etc/slurm/ask.sh")
			compareJobs(t, partitions, strings.Split(strings.TrimSpace(out), "\n"))
		})
	}
}

// render makes the site's files, and the lines of slurm.conf but for the partitions.
func (s *jobSite) render(t *testing.T) (*Rendered, []string) {
	t.Helper()
	cluster, err := simulated.Parse(s.name, []byte(s.groups))
	if err != nil {
		t.Fatal(err)
	}
	s.keys.SlurmVersion, s.keys.Format = slurmrig.Slurm2605.Slurm, "yaml"
	pub := complete(t, s.keys)[0]
	facts := pub.Rules.Gather(snapshotOf(cluster))
	made := makeFiles(t, pub, facts, Previous{})
	lines := []string{"ResumeProgram=/bin/true", "SuspendProgram=/bin/true", "SuspendTime=86400", "GresTypes=gpu"}
	for i := range facts.Facts {
		f := &facts.Facts[i]
		lines = append(lines, fmt.Sprintf("NodeName=%s NodeAddr=127.0.0.1 Port=%d CPUs=2 RealMemory=1000 Gres=gpu:%d State=CLOUD", f.SlurmName, 20001+i, f.GPUCount()))
	}
	return made, lines
}

// comparePlan compares topologies and impossible sizes with what the plan says.
func (s *jobSite) comparePlan(t *testing.T, plan *topology.Plan) {
	t.Helper()
	topologies, impossible := map[string]int{}, map[string]string{}
	for _, topo := range plan.BlockTopologies() {
		topologies[topo.Name] = topo.Sizes[0]
	}
	for _, p := range plan.Problems {
		if p.Reason == placement.ReasonJobSizes {
			var sizes, name string
			if _, err := fmt.Sscanf(p.Message, "jobs of %s nodes cannot run in topology %s", &sizes, &name); err != nil {
				t.Fatalf("%q: %v", p.Message, err)
			}
			impossible[strings.TrimSuffix(name, ":")] = sizes
		}
	}
	if fmt.Sprint(topologies) != fmt.Sprint(s.topologies) || fmt.Sprint(impossible) != fmt.Sprint(s.impossible) {
		t.Errorf("topologies %v, impossible sizes %v; want %v, %v", topologies, impossible, s.topologies, s.impossible)
	}
}

// jobPartition is a partition and what the plan says of its nodes.
type jobPartition struct {
	name, topology string
	nodes          []string
	// blockSizes are Slurm's, none of a tree and of nodes that are in no block.
	blockSizes []int
	// together are the nodes in each block. Without blocks they are the nodes that
	// something joins: those below each root switch, or all.
	together []int
}

// partitionsOf returns the partitions that people make from a plan: the ones of the block
// topologies, one of the tree, one of nodes in no block, and one of all nodes.
func partitionsOf(made *Rendered) []*jobPartition {
	plan := made.Plan
	isYAML := made.Files["topology.yaml"] != ""
	var partitions []*jobPartition
	all := &jobPartition{name: "all"}
	for _, topo := range plan.BlockTopologies() {
		p := &jobPartition{name: topo.Name, blockSizes: topo.Sizes}
		if isYAML {
			p.topology = topo.Name
		}
		for _, b := range topo.Blocks {
			p.nodes, p.together = append(p.nodes, b.Nodes...), append(p.together, len(b.Nodes))
		}
		if topo.Default {
			all.blockSizes, all.together = p.blockSizes, p.together
		}
		partitions = append(partitions, p)
	}
	apart, places := &jobPartition{name: "apart"}, plan.Places()
	for i := range plan.Nodes {
		pl := &plan.Nodes[i]
		if all.nodes = append(all.nodes, pl.SlurmName); places[pl.SlurmName].Block == "" {
			apart.nodes = append(apart.nodes, pl.SlurmName)
		}
	}
	if apart.together = []int{len(apart.nodes)}; len(apart.nodes) > 0 {
		partitions = append(partitions, apart)
	}
	if isYAML {
		partitions = append(partitions, &jobPartition{name: "tree", topology: topology.FabricTopology, nodes: all.nodes, together: belowRoots(plan)})
	}
	return append(partitions, all)
}

// belowRoots counts the nodes below each root switch.
func belowRoots(plan *topology.Plan) []int {
	below := map[string]int{}
	for _, s := range plan.Switches() { // children first
		below[s.Name] += len(s.Nodes)
		for _, child := range s.Children {
			below[s.Name] += below[child]
			delete(below, child)
		}
	}
	return slices.Collect(maps.Values(below))
}

func (p *jobPartition) line() string {
	line := fmt.Sprintf("PartitionName=%s Nodes=%s State=UP", p.name, hostlist.Compress(p.nodes))
	if p.topology != "" {
		line += " Topology=" + p.topology
	}
	return line
}

// usualSizes are sizes of jobs that people use, and some beside them.
var usualSizes = []int{1, 2, 4, 8, 9, 10, 12, 16, 18, 20, 24, 27, 32, 36, 45, 48, 53, 54, 60, 64, 70, 72, 80, 90, 96, 104, 108, 126}

// sizes are the sizes that the partition has nodes for. A larger job waits.
func (p *jobPartition) sizes() []int {
	fit := slices.DeleteFunc(slices.Clone(usualSizes), func(n int) bool { return n >= len(p.nodes) })
	return append(fit, len(p.nodes))
}

// segments are the segments that a job of n nodes may ask for: 0 is none.
func (p *jobPartition) segments(n int) []int {
	segments := []int{0}
	for _, s := range []int{4, 8, 9, 16, 18} {
		if len(p.blockSizes) > 0 && s <= p.blockSizes[0] && n%s == 0 {
			segments = append(segments, s)
		}
	}
	return segments
}

// runs says whether a job can run by the plan.
func (p *jobPartition) runs(n, segment int) bool {
	switch total := sum(p.together); {
	case len(p.blockSizes) == 0:
		return n <= slices.Max(p.together)
	case n == 1:
		return true
	case segment > 0:
		whole := 0
		for _, nodes := range p.together {
			whole += nodes / segment
		}
		return n/segment <= whole
	default:
		return n <= total && !placement.ImpossibleJobs(p.blockSizes, p.together).Has(n)
	}
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// compareJobs compares slurmctld's answers with the plan, and logs a table of them.
func compareJobs(t *testing.T, partitions []*jobPartition, answers []string) {
	t.Helper()
	taken, refused := map[string][]string{}, map[string][]string{}
	for _, line := range answers {
		var name string
		var n, segment int
		if _, err := fmt.Sscan(line, &name, &n, &segment); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		job := fmt.Sprint(n)
		if segment > 0 {
			job += fmt.Sprintf("/%d", segment)
		}
		no := strings.Contains(line, "Requested node configuration is not available")
		if !no && !strings.Contains(line, "to start at") {
			t.Fatalf("slurmctld says neither yes nor no: %q", line)
		}
		if no {
			refused[name] = append(refused[name], job)
		} else {
			taken[name] = append(taken[name], job)
		}
		at := slices.IndexFunc(partitions, func(p *jobPartition) bool { return p.name == name })
		if want := partitions[at].runs(n, segment); want == no {
			t.Errorf("partition %s, -N %d, segment %d: refused %t, and the plan says that it can run: %t: %s", name, n, segment, no, want, line)
		}
	}
	for _, p := range partitions {
		if len(taken[p.name]) == 0 {
			t.Errorf("no job was taken in partition %s", p.name)
		}
		t.Logf("partition %s, %d nodes, blocks of %v, BlockSizes %v (N, or N/segment):\n\ttaken:   %s\n\trefused: %s", p.name, len(p.nodes), p.together, p.blockSizes,
			strings.Join(taken[p.name], " "), cmp.Or(strings.Join(refused[p.name], " "), "none"))
	}
}
