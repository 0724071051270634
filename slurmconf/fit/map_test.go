package fit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/testdata/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// second is so many seconds after the first moment of the tests.
func second(n int64) time.Time { return time.Unix(1_700_000_000+n, 0) }

// racks is three racks of 4 in blocks, and below two leaf switches.
func racks() []topology.Topology {
	return []topology.Topology{
		{Name: "nvl", Default: true, Kind: "block", Sizes: []int{4}, Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n[1-4]")}, {Name: "b2", Nodes: hosts.In("n[5-8]")}, {Name: "b3", Nodes: hosts.In("n[9-12]")}}},
		{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "s1", Nodes: hosts.In("n[1-8]")}, {Name: "s2", Nodes: hosts.In("n[9-12]")}, {Name: "root", Children: hosts.In("s[1-2]")}}},
		{Name: "flat", Kind: "flat"},
	}
}

// slurm is a Slurm with the jobs. Nodes without a job have been idle since second 0.
func slurm(jobs ...slurmctld.Job) *slurmctld.State {
	s := &slurmctld.State{Nodes: map[string]slurmctld.Node{}, Partitions: map[string]string{"p": "", "tree": "fabric"}}
	for i := 1; i <= 13; i++ {
		s.Nodes[fmt.Sprint("n", i)] = slurmctld.Node{State: "IDLE", LastBusy: second(0), Partitions: "q,p", CPUs: 8}
	}
	for i := range jobs {
		jobs[i].ID = fmt.Sprint(i + 1)
		if jobs[i].Partition == "" {
			jobs[i].Partition = "p"
		}
		s.Jobs = append(s.Jobs, jobs[i])
	}
	return s
}

func TestMapJudge(t *testing.T) {
	job := func(nodes string, segment int) slurmctld.Job {
		return slurmctld.Job{Nodes: nodes, Segment: segment, Start: second(10)}
	}
	with := func(j slurmctld.Job, change func(*slurmctld.Job)) slurmctld.Job { change(&j); return j }
	two := job("n[1-2,5-6]", 2)
	for _, tt := range []struct {
		name   string
		jobs   []slurmctld.Job
		change func(*slurmctld.State)
		want   string
	}{
		{"two blocks, one would have done", []slurmctld.Job{two}, nil, "nvl: 2 blocks, 1 would have done; fabric: 1 leaf switch"},
		{"the others were busy until then", []slurmctld.Job{two}, func(s *slurmctld.State) { busyUntil(s, 11, "n3", "n7", "n9") }, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"until the same second", []slurmctld.Job{two}, func(s *slurmctld.State) { busyUntil(s, 10, "n3", "n7", "n9") }, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"a whole job came later", []slurmctld.Job{two, later("n[3-4,7-12]", true)}, nil, "nvl: 2 blocks, 1 would have done; fabric: 1 leaf switch"},
		{"a job came later that may share its nodes", []slurmctld.Job{two, with(later("n[3-4,7-12]", false), func(j *slurmctld.Job) { j.Shares = true })}, nil, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"a job came later that has all CPUs", []slurmctld.Job{two, later("n[3-4,7-12]", false)}, nil, "nvl: 2 blocks, 1 would have done; fabric: 1 leaf switch"},
		{"a job came later that has some CPUs", []slurmctld.Job{two, later("n[3-4,7-12]", false)}, func(s *slurmctld.State) {
			for name, n := range s.Nodes {
				n.State = strings.Replace(n.State, "ALLOCATED", "MIXED", 1)
				s.Nodes[name] = n
			}
		}, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"another job was there before", []slurmctld.Job{two, with(job("n[3-4,7-12]", 0), func(j *slurmctld.Job) { j.Start, j.Whole = second(9), true })}, nil, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"of another partition", []slurmctld.Job{with(two, func(j *slurmctld.Job) { j.Partition = "r" })}, nil, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"with other memory", []slurmctld.Job{two}, func(s *slurmctld.State) {
			for name, n := range s.Nodes {
				if !strings.Contains("n1 n2 n5 n6", name) {
					n.Memory = 1
					s.Nodes[name] = n
				}
			}
		}, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"the job names nodes", []slurmctld.Job{with(two, func(j *slurmctld.Job) { j.Choosy = true })}, nil, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"alone in its blocks, and a node of each was busy", []slurmctld.Job{with(two, func(j *slurmctld.Job) { j.Whole = true })}, func(s *slurmctld.State) { busyUntil(s, 11, "n3", "n7", "n9") }, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"a block that another job has closed", []slurmctld.Job{two, with(job("n9", 0), func(j *slurmctld.Job) { j.Topo = true })}, func(s *slurmctld.State) { busyUntil(s, 11, "n3", "n7") }, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"segments that are not whole", []slurmctld.Job{job("n[1-3,5-7,9-10]", 4)}, nil, "nvl: 3 blocks; segment 4 got 3+3+2; fabric: 2 leaf switches, 1 would have done"},
		{"the partition has another topology", []slurmctld.Job{with(job("n[1-3,5-7,9-10]", 4), func(j *slurmctld.Job) { j.Partition = "tree" })}, nil, "nvl: 3 blocks; fabric: 2 leaf switches"},
		{"a node in no block", []slurmctld.Job{job("n[1-3,13]", 0)}, nil, "nvl: 1 block"},
		{"a job that has lost a node", []slurmctld.Job{job("n[1-2,5]", 2)}, nil, "nvl: 2 blocks; fabric: 1 leaf switch"},
		{"in no topology", []slurmctld.Job{job("n13", 0)}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := fit.NewMap(racks())
			if err != nil {
				t.Fatal(err)
			}
			s := slurm(tt.jobs...)
			for _, j := range s.Jobs {
				for _, n := range hosts.In(j.Nodes) {
					node := s.Nodes[n]
					node.State = "ALLOCATED"
					s.Nodes[n] = node
				}
			}
			if tt.change != nil {
				tt.change(s)
			}
			var said []string
			for _, j := range m.Judge(s, nil)[0] {
				said = append(said, j.Topology+": "+j.Words())
			}
			if diff := cmp.Diff(tt.want, strings.Join(said, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// later is a job that started after the one that is judged.
func later(nodes string, whole bool) slurmctld.Job {
	return slurmctld.Job{Nodes: nodes, Start: second(11), Whole: whole}
}

func busyUntil(s *slurmctld.State, at int64, nodes ...string) {
	for _, name := range nodes {
		n := s.Nodes[name]
		n.LastBusy = second(at)
		s.Nodes[name] = n
	}
}

// TestMapJudgesWanted judges only the jobs that are wanted.
func TestMapJudgesWanted(t *testing.T) {
	m, err := fit.NewMap(racks())
	if err != nil {
		t.Fatal(err)
	}
	s := slurm(slurmctld.Job{Nodes: "n1"}, slurmctld.Job{Nodes: "n2"}, slurmctld.Job{Nodes: "n[3-"})
	got := m.Judge(s, func(j *slurmctld.Job) bool { return j.ID != "1" })
	if len(got) != 1 || len(got[1]) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestNewMapRefuses(t *testing.T) {
	const want = "topology x has no BlockSizes"
	if _, err := fit.NewMap([]topology.Topology{{Name: "x", Kind: "block"}}); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// BenchmarkMapJudge judges 2,000 jobs on 10,008 nodes at once, as a new leader does. The jobs have
// four or five nodes each, in segments of two, and started one after the other.
func BenchmarkMapJudge(b *testing.B) {
	const nodes = 10_008
	blocks := topology.Topology{Name: "nvl", Default: true, Kind: "block", Sizes: []int{18, 36, 72}}
	tree := topology.Topology{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "root", Children: hosts.In(fmt.Sprintf("s[0-%d]", nodes/18-1))}}}
	s := &slurmctld.State{Nodes: map[string]slurmctld.Node{}, Partitions: map[string]string{"p": ""}}
	for rack := range nodes / 18 {
		list := hosts.In(fmt.Sprintf("n[%d-%d]", rack*18+1, rack*18+18))
		blocks.Blocks = append(blocks.Blocks, topology.Block{Name: fmt.Sprint("b", rack), Nodes: list})
		tree.Switches = append(tree.Switches, topology.Switch{Name: fmt.Sprint("s", rack), Nodes: list})
	}
	for i := range nodes {
		s.Nodes[fmt.Sprint("n", i+1)] = slurmctld.Node{State: "ALLOCATED", LastBusy: second(0), Partitions: "p,q", Gres: "gpu:gb200:4"}
	}
	for i := range 2000 {
		s.Jobs = append(s.Jobs, slurmctld.Job{ID: fmt.Sprint(i), Nodes: fmt.Sprintf("n[%d-%d,%d-%d]", i*4+1, i*4+2, (i*4+900)%nodes+3, (i*4+900)%nodes+4), Segment: 2, Start: second(int64(i + 1)), Partition: "p", Whole: true})
	}
	m, err := fit.NewMap([]topology.Topology{blocks, tree})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if judged := m.Judge(s, nil); len(judged) != 2000 {
			b.Fatal(len(judged))
		}
	}
}
