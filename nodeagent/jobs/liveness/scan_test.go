package liveness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseSocket(t *testing.T) {
	tests := []struct {
		name, node, job string
		step            uint64
		ok              bool
	}{
		{"n01_17.4294967292", "n01", "17", externStep, true},
		{"rack_1_node_2_9.0", "rack_1_node_2", "9", 0, true},
		{"n01_17.4294967292.tmp", "", "", 0, false},
		{"n01_17", "", "", 0, false},
		{"_17.0", "", "", 0, false},
		{"n01_17.-1", "", "", 0, false},
		{"n01_x17.1", "", "", 0, false},
		{"hwloc_topo_17.0.xml", "", "", 0, false},
		{"cred_state", "", "", 0, false},
	}
	for _, tt := range tests {
		if node, job, step, ok := parseSocket(tt.name); node != tt.node || job != tt.job || step != tt.step || ok != tt.ok {
			t.Errorf("%s: %q, %q, %d, %v", tt.name, node, job, step, ok)
		}
	}
}

// FuzzParseSocket reads no name in two ways.
func FuzzParseSocket(f *testing.F) {
	f.Add("n01_17.4294967292")
	f.Add("a_b_1.2")
	f.Add("_1.2")
	f.Fuzz(func(t *testing.T, name string) {
		node, job, step, ok := parseSocket(name)
		if !ok {
			return
		}
		if again := fmt.Sprintf("%s_%s.%d", node, job, step); node == "" || strings.TrimLeft(again[len(node)+1+len(job)+1:], "0") != strings.TrimLeft(name[len(node)+1+len(job)+1:], "0+") {
			t.Errorf("%q is read as %q", name, again)
		}
	})
}

// wantedOf are jobs without a SLUID.
func wantedOf(ids ...string) wantedJobs {
	w := wantedJobs{}
	for _, id := range ids {
		w.add(id, "")
	}
	return w
}

// TestSpool tells a step that lives from one that was killed and from what is no
// socket, below a path that is too long for a socket's address.
func TestSpool(t *testing.T) {
	r := newNode(t)
	r.Listen("n1_17.4294967291")
	r.Listen("n1_17.3")
	r.Listen("n2_17.0")
	r.Listen("n1_18.0")
	r.Kill("n1_17.3")
	r.must(os.WriteFile(filepath.Join(r.Spool, "n1_17.9"), nil, 0o600))
	deep := filepath.Join(r.dir, strings.Repeat("deep/", 30))
	r.must(os.MkdirAll(filepath.Dir(deep), 0o755))
	r.must(os.Symlink(r.Spool, deep[:len(deep)-1]+"x"))
	for _, dir := range []string{r.Spool, deep[:len(deep)-1] + "x"} {
		w := stepScanner{spools: []string{dir, filepath.Join(r.dir, "missing")}}
		e := w.scan(wantedOf("17"), true, 0)
		got := e.jobs["17"]
		slices.SortFunc(got, func(a, b sighting) int {
			return strings.Compare(fmt.Sprint(a.node, a.lasting, a.alive), fmt.Sprint(b.node, b.lasting, b.alive))
		})
		want := []sighting{{dir, "n1", false, false, false}, {dir, "n1", true, true, false}, {dir, "n2", true, false, false}}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(sighting{})); diff != "" {
			t.Errorf("%d bytes of path (-want +got):\n%s", len(dir), diff)
		}
		if len(e.jobs) != 1 || !w.canTell(&e, dir) || w.canTell(&e, filepath.Join(r.dir, "missing")) {
			t.Errorf("saw jobs %v, readable %v", e.jobs, e.readable)
		}
	}
}

// TestGroups finds the steps in control groups, also in a pod's.
func TestGroups(t *testing.T) {
	const pod = "kubepods.slice/kubepods-burstable.slice/pod1/cri-1.scope/system.slice/slurmstepd.scope"
	r := newNode(t)
	r.Group("system.slice/n1_slurmstepd.scope/job_17", "cgroup.events", "populated 1\nfrozen 0\n")
	r.Group("system.slice/n1_slurmstepd.scope/job_17/step_extern")
	r.Group("system.slice/n1_slurmstepd.scope/job_18", "cgroup.events", "populated 0\nfrozen 0\n")
	r.Group("system.slice/n1_slurmstepd.scope/job_18/step_0")
	r.Group(pod+"/job_19", "cgroup.events", "populated 1\n")
	r.Group(pod + "/job_19/step_batch")
	r.Group(pod + "/job_20/step_0") // it does not say whether it has a process
	r.Group(pod+"/s54SM8HESCK800", "cgroup.events", "populated 1\n")
	r.Group(pod + "/s54SM8HESCK800/step_extern")
	r.Group(pod + "/sEVDM8HEN6D100/step_extern") // of another run of job 22
	w := stepScanner{cgroupRoot: r.Cgroup}
	wanted := wantedOf("17", "18", "19", "20", "21")
	wanted.add("22", "s54SM8HESCK800")
	e := w.scan(wanted, true, 0)
	if !e.nameless {
		t.Error("a group of a SLUID that is not wanted: want a job without a name")
	}
	v2, inPod := filepath.Join(r.Cgroup, "system.slice/n1_slurmstepd.scope"), filepath.Join(r.Cgroup, pod)
	want := map[string][]sighting{
		"17": {{v2, "n1", true, true, true}},
		"18": {{v2, "n1", false, false, false}},
		"19": {{inPod, "", true, true, false}},
		"20": {{inPod, "", true, false, false}},
		"22": {{inPod, "", true, true, true}},
	}
	if diff := cmp.Diff(want, e.jobs, cmp.AllowUnexported(sighting{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.must(os.RemoveAll(filepath.Dir(v2)))
	e = w.scan(wantedOf("17"), false, time.Second)
	if !w.canTell(&e, v2) || e.readable[v2] {
		t.Error("control groups that are gone with their steps: want to know that nothing is left")
	}
	r.must(os.Rename(r.Cgroup, r.Cgroup+".away"))
	r.must(os.Mkdir(r.Cgroup, 0o755))
	if e = w.scan(wantedOf("17"), false, 2*time.Second); w.canTell(&e, v2) {
		t.Error("nothing is mounted there: want to know nothing")
	}
}

// TestForged leaves out what others than root have made.
func TestForged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make files of another user")
	}
	r := newNode(t)
	for path, owner := range map[string]int{"user.slice/slurmstepd.scope": 65534, "system.slice/slurmstepd.scope": 0} {
		r.Group(path+"/job_17", "cgroup.events", "populated 1\n")
		r.Group(path + "/job_17/step_extern")
		r.must(os.Chown(filepath.Join(r.Cgroup, path), owner, owner))
	}
	for name, owner := range map[string]int{"n1_18.0": 65534, "n1_19.0": 0} {
		r.Listen(name)
		r.must(os.Chown(filepath.Join(r.Spool, name), owner, owner))
	}
	w := stepScanner{spools: []string{r.Spool}, cgroupRoot: r.Cgroup}
	e := w.scan(wantedOf("17", "18", "19"), true, 0)
	want := map[string][]sighting{
		"17": {{filepath.Join(r.Cgroup, "system.slice/slurmstepd.scope"), "", true, true, true}},
		"19": {{r.Spool, "n1", true, false, false}},
	}
	if diff := cmp.Diff(want, e.jobs, cmp.AllowUnexported(sighting{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGroupsAreSearchedSeldom searches the tree again after the pause, if a job is not
// seen.
func TestGroupsAreSearchedSeldom(t *testing.T) {
	r := newNode(t)
	w := stepScanner{cgroupRoot: r.Cgroup}
	w.scan(wantedOf("17"), true, 0)
	r.Group("slurmstepd.scope/job_17/step_extern")
	for _, look := range []struct {
		at     time.Duration
		unseen bool
		want   int
	}{{walkPause - 1, true, 0}, {walkPause, false, 0}, {walkPause, true, 1}} {
		if e := w.scan(wantedOf("17"), look.unseen, look.at); len(e.jobs["17"]) != look.want {
			t.Errorf("%+v: %v", look, e.jobs)
		}
	}
}

// BenchmarkLook measures a look at 64 jobs, and the search of a Kubernetes node's
// tree of 6,000 control groups.
func BenchmarkLook(b *testing.B) {
	root := b.TempDir()
	var jobs []string
	for i := range 64 {
		jobs = append(jobs, fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Join(root, fmt.Sprintf("system.slice/slurmstepd.scope/job_%d/step_extern", i)), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for pod := range 250 {
		for c := range 24 {
			if err := os.MkdirAll(filepath.Join(root, fmt.Sprintf("kubepods.slice/pod%d/cri-%d.scope", pod, c)), 0o755); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			if len(searchGroups(root)) != 1 {
				b.Fatal("not found")
			}
		}
	})
	w := stepScanner{cgroupRoot: root}
	b.Run("jobs", func(b *testing.B) {
		for b.Loop() {
			if e := w.scan(wantedOf(jobs...), len(w.groups) == 0, 0); len(e.jobs) != 64 {
				b.Fatal("not seen")
			}
		}
	})
}
