package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/testdata/rig/logtext"
)

// TestTask prints what a task may know of its place.
func TestTask(t *testing.T) {
	blocks := []rundir.JobBlock{{Name: "rack1", Nodes: "n[01-04]"}, {Name: "rack2", Nodes: "n[11-13]"}, {Name: "rack3", Nodes: "n21"}}
	job := map[string]string{"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c", "SLURMD_NODENAME": "n12", "SLURM_JOB_NODELIST": "n[01-04,11-13,21]",
		"SLURM_STEP_NODELIST": "n[01-04,11-13,21]", "SLURM_STEP_TASKS_PER_NODE": "4(x5),2(x2),4", "SLURM_LOCALID": "1", "SLURM_JOB_SEGMENT_SIZE": "2"}
	const all = "export QUOIN_CLIQUE=u.1\nexport QUOIN_BLOCK=rack2\nexport QUOIN_BLOCKS=3\n"
	for _, tt := range []struct {
		name   string
		blocks []rundir.JobBlock
		change map[string]string
		want   string
	}{
		{"second node of the second block", blocks, nil, all + "export QUOIN_RANK_IN_BLOCK=5\nexport QUOIN_SEGMENT=2\n"},
		{"third node", blocks, map[string]string{"SLURMD_NODENAME": "n13", "SLURM_LOCALID": "0"}, all + "export QUOIN_RANK_IN_BLOCK=6\nexport QUOIN_SEGMENT=3\n"},
		{"a step on some nodes", blocks, map[string]string{"SLURM_STEP_NODELIST": "n[04,12,21]", "SLURM_STEP_TASKS_PER_NODE": "3(x3)"}, all + "export QUOIN_RANK_IN_BLOCK=1\nexport QUOIN_SEGMENT=2\n"},
		{"no segments", blocks, map[string]string{"SLURM_JOB_SEGMENT_SIZE": ""}, all + "export QUOIN_RANK_IN_BLOCK=5\n"},
		{"counts that do not fit", blocks, map[string]string{"SLURM_STEP_TASKS_PER_NODE": "4(x9)"}, all + "export QUOIN_SEGMENT=2\n"},
		{"endless counts", blocks, map[string]string{"SLURM_STEP_TASKS_PER_NODE": "4(x2147483647)"}, all + "export QUOIN_SEGMENT=2\n"},
		{"no local id", blocks, map[string]string{"SLURM_LOCALID": "x"}, all + "export QUOIN_SEGMENT=2\n"},
		{"a node in no block", blocks, map[string]string{"SLURMD_NODENAME": "n99"}, "export QUOIN_CLIQUE=u.1\n"},
		{"blocks unknown", nil, nil, "export QUOIN_CLIQUE=u.1\n"},
		{"a broken list of nodes", []rundir.JobBlock{{Name: "rack1", Nodes: "n[1"}}, nil, "export QUOIN_CLIQUE=u.1\n"},
		{"another job", blocks, map[string]string{"SLURM_JOB_ID": "8"}, "export QUOIN_CLIQUE=u.1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := rundir.Dir(t.TempDir())
			if err := dir.WriteInventory(rundir.Inventory{Clique: "u.1"}); err != nil {
				t.Fatal(err)
			}
			if err := rundir.WritePlaces(dir, "7", os.Getuid(), rundir.Places{JobID: "7", Blocks: tt.blocks}); err != nil {
				t.Fatal(err)
			}
			env := func(key string) string {
				if value, is := tt.change[key]; is {
					return value
				}
				return job[key]
			}
			var out, said strings.Builder
			if code := RunTask(Options{RunDir: dir, Env: env, Stderr: &said}, &out); code != 0 || out.String() != tt.want || said.String() != "" {
				t.Errorf("%d, %q\n got %s\nwant %s", code, said.String(), out.String(), tt.want)
			}
		})
	}
}

// TestTaskBroken says what it cannot read, and fails no task.
func TestTaskBroken(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tasks"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"inventory.json": "{", "tasks/7.json": `{"apiVersion":"quoin.dev/v1alpha1","kind":"JobPlaces","jobID":"8"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string][]string{"7": {"inventory.json", `7.json: it is of job "8"`}, "../7": {"inventory.json", `"../7"`}} {
		var out, said strings.Builder
		o := Options{RunDir: rundir.Dir(dir), Env: func(key string) string { return map[string]string{"SLURM_JOB_ID": id}[key] }, Stderr: &said}
		if code := RunTask(o, &out); code != 0 || out.Len() > 0 {
			t.Errorf("%d, %s", code, out.String())
		}
		for _, w := range want {
			if !strings.Contains(said.String(), w) {
				t.Errorf("job %s: said %q, want %s", id, said.String(), w)
			}
		}
	}
}

// TestTaskHangs has the task's place unread when the time is over: the task goes on, and is
// told why it has no place.
func TestTaskHangs(t *testing.T) {
	held := make(chan struct{})
	defer close(held)
	env := func(string) string {
		<-held
		return ""
	}
	var out, said logtext.Text // the hook may write after it has come back
	code := RunTask(Options{RunDir: rundir.Dir(t.TempDir()), Env: env, Stderr: &said, Wait: 20 * time.Millisecond}, &out)
	const want = "quoin-hook: task: its place was not read within 20ms; the task goes on\n"
	// RunTask does not wait for long until it is said.
	for end := time.Now().Add(3 * time.Minute); said.String() != want && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if code != 0 || out.String() != "" || said.String() != want {
		t.Errorf("%d, printed %q, said %q", code, out.String(), said.String())
	}
}

// TestTellTasksHangs has a scontrol that does not answer: the job goes on, the hook says what
// its tasks lack and counts it, and a task gets what is known without Slurm.
func TestTellTasksHangs(t *testing.T) {
	p := newPlace(t)
	p.wait = time.Minute
	if err := rundir.Dir(p.run).WriteInventory(rundir.Inventory{Node: "n1", Clique: "u.1", Entries: []rundir.Entry{{UUID: "GPU-0", ExporterID: "0"}}}); err != nil {
		t.Fatal(err)
	}
	conf := p.conf
	if err := os.WriteFile(conf, []byte("TaskProlog=/opt/quoin/bin/quoin-task\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := writeScript(t, "exec sleep 1000")
	if err := rundir.Dir(p.run).WriteHookConfig(rundir.HookConfig{MappingDir: p.mapping,
		JobInfo: &rundir.JobInfo{Command: command, Timeout: rundir.Duration(50 * time.Millisecond)}}); err != nil {
		t.Fatal(err)
	}
	said := p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_UID="+fmt.Sprint(os.Getuid()), "SLURM_CONF="+conf, "SLURMD_NODENAME=n1", "SLURM_JOB_NODELIST=n[1-3]")
	if want := "quoin-hook: job 7: " + command + " show topology: no answer within 50ms: ; its tasks do not learn their blocks\n"; !strings.Contains(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if diff := cmp.Diff([]string{"prolog " + rundir.CallJobInfo}, takeCalls(t, p.run)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	p.check("the label is there", map[string]string{"0": "7\n"})
	var out, complaint strings.Builder
	env := map[string]string{"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n[1-3]"}
	code := RunTask(Options{RunDir: rundir.Dir(p.run), Env: func(key string) string { return env[key] }, Stderr: &complaint}, &out)
	if code != 0 || out.String() != "export QUOIN_CLIQUE=u.1\n" || complaint.Len() > 0 {
		t.Errorf("the task: %d, printed %q, said %q", code, out.String(), complaint.String())
	}
}

// TestTellTasks leaves the blocks for the tasks of a job if there is a TaskProlog, and
// takes them away with the record.
func TestTellTasks(t *testing.T) {
	p := newPlace(t)
	p.inventory("0", "1")
	file := filepath.Join(p.run, "tasks/7.json")
	conf := p.conf
	prolog := func(slurmConf, topology string) string {
		t.Helper()
		for name, text := range map[string]string{conf: slurmConf, filepath.Join(filepath.Dir(conf), "topology.conf"): topology} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if said := p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_UID="+fmt.Sprint(os.Getuid()), "SLURM_CONF="+conf, "SLURMD_NODENAME=n1", "SLURM_JOB_NODELIST=n[1-3]"); said != "" {
			t.Errorf("said %q", said)
		}
		places, err := rundir.FindPlaces(rundir.Dir(p.run), rundir.JobIdentity{JobID: "7", Node: "n1"})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(places.Blocks)
	}
	if got := prolog("PrologFlags=Alloc\n", "BlockName=a Nodes=n[1-3]\n"); !strings.Contains(got, "no such file") {
		t.Errorf("without a TaskProlog: %s", got)
	}
	for topology, want := range map[string]string{"BlockName=a Nodes=n[0-1]\nBlockName=b Nodes=n[2-9]\n": "[{a n1} {b n[2-3]}]", "BlockName=a Nodes=n1\n": "[]", "": "[]"} {
		if got := prolog("TaskProlog=/opt/quoin/bin/quoin-task\n", topology); got != want {
			t.Errorf("%q: %s, want %s", topology, got, want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o400 {
		t.Errorf("%v, %v", info, err)
	}
	p.hook("epilog", "7", "SLURM_JOB_GPUS=0", "SLURMD_NODENAME=n1")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("after the Epilog: %v", err)
	}
}

func TestFindBlocks(t *testing.T) {
	for _, tt := range []struct {
		name, yaml, list, want string
		known                  bool
	}{
		{"one", twoRacks, "n[1,3]", "[{b1 n[1,3]}]", true},
		{"two, in Slurm's order", twoRacks, "n[2-3]", "[{b1 n3} {b2 n2}]", true},
		{"one in no block", twoRacks, "n[1,9]", "[]", false},
		{"nodes before the block's name", "- topology: nvl\n  block:\n    blocks:\n      - nodes: n1\n        block: b1\n      - nodes: n2\n        block: b2\n", "n[1-2]", "[{b1 n1} {b2 n2}]", true},
		{"two topologies, each with other nodes", "- topology: a\n  block:\n    blocks:\n      - block: b1\n        nodes: n1\n- topology: b\n  block:\n    blocks:\n      - block: b1\n        nodes: n[2-3]\n", "n[2-3]", "[{b1 n[2-3]}]", true},
		{"two topologies with the same nodes", "- topology: a\n  block:\n    blocks:\n      - block: b1\n        nodes: n1\n- topology: b\n  block:\n    blocks:\n      - block: b2\n        nodes: n1\n", "n1", "[]", false},
		{"a broken list", twoRacks, "n[1", "[]", false},
	} {
		got, known := findBlocks([]byte(tt.yaml), yamlBlocks, tt.list)
		if fmt.Sprint(got) != tt.want || known != tt.known {
			t.Errorf("%s: %v, %t; want %s, %t", tt.name, got, known, tt.want, tt.known)
		}
	}
}
