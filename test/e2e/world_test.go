// Package e2e_test installs Quoin on a cluster with real kubelets and Slinky's own
// operator, and follows it through a job, a drain, an upgrade and its removal. Everything
// runs on one machine: see test/rig/boxrig.
package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/machine"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/nvidiadra"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/slinky"
	"github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// nodes is how many the cluster has, in two racks, and nodeWorkers is how many of these have a
// worker pod. So each rack has two at any time: one alone would be in no block. nodeGPUs is how
// many GPUs each node has.
const (
	nodes       = 6
	nodeWorkers = 5
	rackNodes   = 3
	nodeGPUs    = 8
)

// world is the cluster that the steps of the test go through.
type world struct {
	t     *testing.T // of the step
	box   *boxrig.Box
	slurm slinky.Slurm
	quoin string // the program
	dir   string
	// began is when the installation did.
	began *time.Time
	page  *page // that the test follows
}

// needBox skips a short run of a test that needs what make box builds.
func needBox(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the box")
	}
}

// ran runs a program, which must succeed, and returns its output.
func ran(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := process.Output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newWorld starts a cluster with nothing installed. Its nodes are hosts of two
// NVL72 racks.
func newWorld(t *testing.T) *world {
	needBox(t)
	program, err := programs.Build(t.Context(), programs.Quoin)
	if err != nil {
		t.Fatal(err)
	}
	library := nvml.Library(t, 580)
	box, err := boxrig.Start(t.Context(), t.TempDir(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Stop)
	for i, m := range box.Machines {
		writeHardware(t, m, i)
		if err := nvidiadra.LoadDriver(t.Context(), m, library, "580.65.06"); err != nil {
			t.Fatal(err)
		}
	}
	return &world{t: t, box: box, slurm: slinky.Slurm{Box: box}, quoin: program, dir: t.TempDir(), began: new(time.Time), page: new(page)}
}

// writeHardware writes which GPUs the node's driver has.
func writeHardware(t *testing.T, m *machine.Machine, number int, more ...string) {
	t.Helper()
	rack := number / rackNodes
	statements := []string{fmt.Sprintf("platform 182272510020%d %d %d 1", rack, 21+number, 11+number), "gpu *", fmt.Sprintf(fabric, rack+1, "1 0x11aa")}
	statements = append(append(statements, uuidStatements(number, nodeGPUs)...), "gpu 0")
	writeMachine(t, m, "gb200", append(statements, more...))
}

// writeMachine writes what the node's driver has: a machine of the fake NVML with more statements.
func writeMachine(t *testing.T, m *machine.Machine, name string, statements []string) {
	t.Helper()
	text, err := os.ReadFile(nvml.New(t, name, statements...).File)
	if err == nil {
		err = m.WriteFile(images.MachineFile, string(text))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// uuidStatements give a node's first GPUs their UUIDs.
func uuidStatements(node, count int) (statements []string) {
	for gpu := range count {
		statements = append(statements, fmt.Sprintf("gpu %d\nuuid %s", gpu, uuid(node, gpu)))
	}
	return statements
}

// fabric is what the driver says of a GPU's NVLinks, by the rack's number and their health.
const fabric = "fabric completed 0 00000000-0000-0000-0000-%012d 0 %s"

// clique is the clique of a rack, as NVIDIA's components write it.
func clique(rack int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d.0", rack) }

// uuid is a GPU's.
func uuid(node, gpu int) string { return fmt.Sprintf("GPU-b200b200-0000-0000-%04d-%012d", node, gpu) }

// step runs a part of the test and says how long it took. No step runs after one that
// failed.
func (w *world) step(name string, run func(w *world)) {
	whole := w.t
	if whole.Failed() {
		return
	}
	whole.Run(name, func(t *testing.T) {
		begin := time.Now()
		step := *w
		step.t = t
		defer func() {
			if t.Failed() {
				step.explain()
			}
			t.Logf("%s; %s of memory in use", time.Since(begin).Round(time.Second), step.memory())
		}()
		run(&step)
	})
}

// memory is what the processes of all machines have together.
func (w *world) memory() string {
	total := int64(0)
	for _, m := range w.box.Machines {
		n, err := m.Memory(w.t.Context())
		if err != nil {
			return err.Error()
		}
		total += n
	}
	return fmt.Sprintf("%d MiB", total>>20)
}

// explain logs what helps to understand a failure.
func (w *world) explain() {
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"-n", "quoin-node", "logs", "-l", "app.kubernetes.io/component=agent", "--tail=10"},
		{"-n", "quoin-system", "logs", "-l", "app.kubernetes.io/component=publisher", "--tail=20"}} {
		out, err := w.box.Kubectl(w.t.Context(), args...)
		w.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out[max(0, len(out)-6000):])
	}
}

// kubectl runs kubectl, which must succeed.
func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	out, err := w.box.Kubectl(w.t.Context(), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// runQuoin runs quoin as the administrator and returns its output.
func (w *world) runQuoin(args ...string) (string, error) {
	args = append(append([]string{w.quoin}, args...), "--kubeconfig", w.box.Kubeconfig())
	return process.Output(w.box.Machines[0].Network(w.t.Context(), args...))
}

// number is the number of a node, from 0 on.
func (w *world) number(node string) int {
	return slices.IndexFunc(w.box.Machines, func(m *machine.Machine) bool { return m.Name == node })
}

// scontrol runs scontrol, which must succeed.
func (w *world) scontrol(args ...string) string {
	w.t.Helper()
	out, err := w.slurm.Scontrol(w.t.Context(), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// until waits until kubectl prints something that is as wanted.
func (w *world) until(what string, is func(out string) bool, args ...string) string {
	w.t.Helper()
	var out string
	await.Until(w.t, what, func() bool {
		var err error
		out, err = w.box.Kubectl(w.t.Context(), args...)
		return err == nil && is(strings.TrimSpace(out))
	}, func() string { return out })
	return strings.TrimSpace(out)
}

// untilSlurm waits until scontrol prints something that is as wanted.
func (w *world) untilSlurm(what string, is func(out string) bool, args ...string) {
	w.t.Helper()
	var out string
	await.Until(w.t, "Slurm has "+what, func() bool {
		var err error
		out, err = w.slurm.Scontrol(w.t.Context(), args...)
		return err == nil && is(out)
	}, func() string { return out })
}
