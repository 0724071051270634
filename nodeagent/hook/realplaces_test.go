package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// placesScript calls the real hook for the machine of a node: a node "x-y" is one of two on machine x.
const placesScript = `#!/bin/bash
machine=${SLURMD_NODENAME%%%%-*}
/rig/quoin-hook %s --run-dir /rig/run-$machine --mapping-dir /rig/map-$machine 2>>/rig/log/hook.$SLURMD_NODENAME
rc=$?
env >/rig/log/%s.$SLURM_JOB_ID.$SLURMD_NODENAME
exit $rc
`

// placesNode is a node whose gres.conf does not have all GPUs of the machine in their order.
type placesNode struct {
	name, gres string
	conf       string // its lines of gres.conf, each without NodeName
	mig        bool   // GPU 0 has two instances
	configless bool
	unknown    bool // no label is right: the list cannot be known
	later      bool // no job runs there before gres.conf is younger than slurmd
}

const migFiles = "/dev/nvidia0,/dev/zero,/dev/full|/dev/nvidia0,/dev/random,/dev/urandom"

// placesNodes are all on machines with eight GPUs.
func placesNodes() []placesNode {
	first, second, _ := strings.Cut(migFiles, "|")
	return []placesNode{
		{name: "part", gres: "gpu:h200:2", conf: "Name=gpu Type=h200 File=/dev/nvidia[1-2]"},
		{name: "upper", gres: "gpu:h200:4", conf: "Name=gpu Type=h200 File=/dev/nvidia[4-7]"},
		{name: "backwards", gres: "gpu:h200:4", conf: "Name=gpu Type=h200 File=/dev/nvidia7\nName=gpu Type=h200 File=/dev/nvidia[3,1,0]"},
		{name: "host-a", gres: "gpu:h200:2", conf: "Name=gpu Type=h200 File=/dev/nvidia[0-1]"},
		{name: "host-b", gres: "gpu:h200:2", conf: "Name=gpu Type=h200 File=/dev/nvidia[2-3]"},
		{name: "mig", gres: "gpu:h200:2,gpu:h200_1g:2", mig: true, conf: "Name=gpu Type=h200_1g MultipleFiles=" + first + "\nName=gpu Type=h200_1g MultipleFiles=" + second + "\nName=gpu Type=h200 File=/dev/nvidia[5-6]"},
		{name: "types", gres: "gpu:b:2,gpu:a:2", conf: "Name=gpu Type=a File=/dev/nvidia1\nName=gpu Type=b File=/dev/nvidia2\nName=gpu Type=a File=/dev/nvidia3\nName=gpu Type=b File=/dev/nvidia4"},
		{name: "fewer", gres: "gpu:b:1,gpu:a:1", conf: "Name=gpu Type=a File=/dev/nvidia[4-5]\nName=gpu Type=b File=/dev/nvidia[6-7]"},
		{name: "untyped", gres: "gpu:3", conf: "Name=gpu Type=a File=/dev/nvidia6\nName=gpu Type=b File=/dev/nvidia5\nName=gpu Type=a File=/dev/nvidia2"},
		{name: "detect", gres: "gpu:8", conf: "AutoDetect=nvidia"},
		{name: "detectfew", gres: "gpu:nvidia:3", conf: "AutoDetect=nvidia"},
		{name: "both", gres: "gpu:h200:4", conf: "AutoDetect=nvidia\nName=gpu Type=h200 File=/dev/nvidia[7,6]\nName=gpu Type=h200 File=/dev/nvidia[2-3]", unknown: true},
		{name: "morethanlines", gres: "gpu:h200:3", conf: "AutoDetect=nvidia\nName=gpu Type=h200 File=/dev/nvidia[6-7]", unknown: true},
		{name: "whole", gres: "gpu:h200:8", conf: "Name=gpu Type=h200 File=/dev/nvidia[0-7]", later: true},
		{name: "never", gres: "gpu:h200:2", conf: "Name=gpu Type=h200 File=/dev/nvidia[1-2]", later: true},
		{name: "sent", gres: "gpu:h200:2", conf: "Name=gpu Type=h200 File=/dev/nvidia[3,1]", configless: true},
	}
}

func (n *placesNode) machine() string {
	machine, _, _ := strings.Cut(n.name, "-")
	return machine
}

// inventory is the machine's. The exporter's ids run against the order of the device files.
func (n *placesNode) inventory() rundir.Inventory {
	inv := rundir.Inventory{Node: n.machine()}
	for g := range 8 {
		e := rundir.Entry{Minor: g, Index: g, UUID: fmt.Sprintf("GPU-%08d-1111-2222-3333-444444444444", g), ExporterID: fmt.Sprint(7 - g), Product: "NVIDIA H200"}
		if g == 0 && n.mig {
			for i, files := range strings.Split(migFiles, "|") {
				one := e
				one.UUID, one.GPUInstanceID, one.Capabilities, one.ExporterID = fmt.Sprint("MIG-", i), &i, strings.Split(files, ",")[1:], fmt.Sprint("7.", i)
				inv.Entries = append(inv.Entries, one)
			}
			continue
		}
		inv.Entries = append(inv.Entries, e)
	}
	for i := range inv.Entries {
		inv.Entries[i].GRESIndex = i
	}
	return inv
}

// places is how many GPUs slurm.conf counts.
func (n *placesNode) places() (sum int) {
	for _, m := range regexp.MustCompile(`:(\d+)`).FindAllStringSubmatch(n.gres, -1) {
		count, _ := strconv.Atoi(m[1])
		sum += count
	}
	return sum
}

// startPlacesRig starts the slurmds of nodes one after another.
func startPlacesRig(t *testing.T, release slurmrig.Release, prologFlags string, nodes []placesNode) *rig {
	t.Helper()
	var slurmConf, gresConf strings.Builder
	slurmConf.WriteString("GresTypes=gpu\nProlog=/etc/slurm/prolog.sh\nEpilog=/etc/slurm/epilog.sh\nPrologFlags=" + prologFlags + "\nKillWait=1\nSelectType=select/cons_tres\nDefMemPerCPU=10\n" +
		"SlurmctldParameters=enable_configless\nDebugFlags=Gres\nPartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO\n")
	for i, n := range nodes {
		fmt.Fprintf(&slurmConf, "NodeName=%s NodeAddr=127.0.0.1 Port=%d CPUs=16 RealMemory=1000 Gres=%s State=UNKNOWN\n", n.name, 21001+i, n.gres)
		for line := range strings.Lines(n.conf) {
			fmt.Fprintf(&gresConf, "NodeName=%s %s\n", n.name, strings.TrimSpace(line))
		}
	}
	c := slurmrig.StartTest(t, release, slurmrig.Config{
		SlurmConf: slurmConf.String(),
		Files:     map[string]string{"gres.conf": gresConf.String(), "prolog.sh": fmt.Sprintf(placesScript, "prolog", "prolog"), "epilog.sh": fmt.Sprintf(placesScript, "epilog", "epilog")},
		GPUs:      8, Model: "NVIDIA H200",
	})
	r := &rig{c, t}
	buildHook(t, filepath.Join(c.Dir, ".rig/quoin-hook"))
	for i := range nodes {
		n := &nodes[i]
		if err := rundir.Dir(filepath.Join(c.Dir, ".rig/run-"+n.machine())).WriteInventory(n.inventory()); err != nil {
			t.Fatal(err)
		}
		var args []string
		if n.configless {
			args = []string{"--conf-server", "127.0.0.1"}
		}
		if err := r.Slurmd(t.Context(), n.name, args...); err != nil {
			t.Fatal(err)
		}
	}
	r.until("all nodes idle", func() bool {
		out, _ := r.Run(t.Context(), "sinfo", "-h", "-N", "-o", "%T")
		return strings.Count(out, "idle\n") == len(nodes)
	})
	return r
}

// deviceLine is a line of slurmd's log for each file of a device of its list, in the list's order.
var deviceLine = regexp.MustCompile(`GRES: gpu device number -?\d+\(([^)]+)\)`)

// slurmdDevices returns the list that the node's slurmd has made last, by its log. Further files of
// a device follow its first.
func (r *rig) slurmdDevices(node string) (devices []string) {
	log := r.Log(node)
	log = log[max(0, strings.LastIndex(log, "_set_gres_device_desc")):]
	for _, m := range deviceLine.FindAllStringSubmatch(log, -1) {
		if strings.HasPrefix(m[1], "/dev/nvidia") {
			devices = append(devices, m[1])
		} else {
			devices[len(devices)-1] += "," + m[1]
		}
	}
	return devices
}

// checkLabel compares the job's label with the device that slurmd has given it.
func (r *rig) checkLabel(n *placesNode, id string, labelled bool) {
	r.t.Helper()
	var text []byte
	r.until("the Prolog of job "+id+" on "+n.name, func() bool {
		text, _ = os.ReadFile(filepath.Join(r.Dir, ".rig/log/prolog."+id+"."+n.name)) // written after the hook
		return strings.Contains(string(text), "SLURM_JOB_GPUS=")
	})
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[key] = value
	}
	said, _ := os.ReadFile(filepath.Join(r.Dir, ".rig/log/hook."+n.name)) // nothing
	place, err := strconv.Atoi(env["SLURM_JOB_GPUS"])
	devices := r.slurmdDevices(n.name)
	if err != nil || place >= len(devices) {
		r.t.Fatalf("node %s: SLURM_JOB_GPUS=%s of %v", n.name, env["SLURM_JOB_GPUS"], devices)
	}
	inv := n.inventory()
	at := slices.IndexFunc(inv.Entries, func(e rundir.Entry) bool { return e.Files() == devices[place] })
	if visible := env["CUDA_VISIBLE_DEVICES"]; at < 0 || strings.HasPrefix(visible, "GPU-") && visible != inv.Entries[at].UUID {
		r.t.Fatalf("node %s: slurmd gave %s, %s", n.name, devices[place], visible)
	}
	var want, got []string
	if labelled || strings.HasPrefix(env["CUDA_VISIBLE_DEVICES"], "GPU-") {
		want = []string{inv.Entries[at].ExporterID}
	}
	for exporterID, jobs := range r.mapping(n.machine()) {
		if slices.Contains(strings.Split(jobs, ","), id) {
			got = append(got, exporterID)
		}
	}
	if !slices.Equal(got, want) || (strings.Contains(string(said), "job "+id+": ") != (want == nil)) {
		r.t.Errorf("node %s: slurmd gave place %d, %s, to job %s: it has label %v, want %v\n%s", n.name, place, devices[place], id, got, want, said)
	}
}

// TestRealPlaces has a real slurmd give GPUs to jobs on nodes whose gres.conf has another order than
// the machine, or a part of its GPUs. Each job gets the label of the device that slurmd gave it, or
// none.
func TestRealPlaces(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			nodes := placesNodes()
			r := startPlacesRig(t, release, "Alloc", nodes)
			type started struct {
				n  *placesNode
				id string
			}
			var jobs []started
			for i := range nodes {
				for range nodes[i].places() {
					if !nodes[i].later {
						jobs = append(jobs, started{&nodes[i], r.submit("-w", nodes[i].name, "--gres=gpu:1")})
					}
				}
			}
			for _, j := range jobs {
				r.checkLabel(j.n, j.id, !j.n.unknown)
			}
			r.must("scancel", "-u", "root")
			r.youngerFiles(nodes)
		})
	}
}

// youngerFiles changes files that slurmds have loaded.
func (r *rig) youngerFiles(nodes []placesNode) {
	byName := map[string]*placesNode{}
	for i := range nodes {
		byName[nodes[i].name] = &nodes[i]
	}
	check := func(node string, labelled bool) {
		r.t.Helper()
		id := r.submit("-w", node, "--gres=gpu:1")
		r.checkLabel(byName[node], id, labelled)
		r.must("scancel", id)
	}
	change := func(file string, pairs ...string) {
		r.t.Helper()
		path := filepath.Join(r.Dir, file)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	const old, changed = "NodeName=part Name=gpu Type=h200 File=/dev/nvidia[1-2]", "NodeName=part Name=gpu Type=h200 File=/dev/nvidia[3-4]"
	change("gres.conf")
	check("part", false)
	check("types", false)
	check("whole", true) // the list is the machine's, and slurmd has loaded a slurm.conf that counts all GPUs
	check("never", false)
	change("gres.conf", old, changed, "NodeName=never Name=gpu Type=h200 File=/dev/nvidia[1-2]", "NodeName=never Name=gpu Type=h200 File=/dev/nvidia[0-7]")
	check("part", false)
	check("never", false) // the list has all GPUs now, and slurmd has two
	check("upper", false)
	check("whole", true)
	check("sent", true) // its slurmd has a copy
	// slurmd starts again, and reads what is there.
	before := len(r.Log("part"))
	r.must("scontrol", "reconfigure")
	r.until("slurmd has the new list", func() bool { return strings.Contains(r.Log("part")[before:], "/dev/nvidia4") })
	check("part", true)
	check("never", true)
	change("gres.conf", "NodeName=part", "Include gone.conf\nNodeName=part")
	check("part", false)
}

// TestRealRunInJob has a slurmstepd that is no child of slurmd run the Prolog, as Slurm 26.05 does
// with PrologFlags=RunInJob. It is not known when slurmd began, so only a list of all GPUs is sure.
func TestRealRunInJob(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	nodes := slices.DeleteFunc(placesNodes(), func(n placesNode) bool { return n.name != "part" && n.name != "whole" })
	r := startPlacesRig(t, slurmrig.Slurm2605, "RunInJob", nodes)
	for i := range nodes {
		for range nodes[i].places() {
			r.checkLabel(&nodes[i], r.submit("-w", nodes[i].name, "--gres=gpu:1"), nodes[i].name == "whole")
		}
	}
}
