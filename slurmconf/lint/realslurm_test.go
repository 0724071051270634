package lint_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/testdata/rig/slots"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// realReleases build the chroot of each release that there is one of, once, and
// return its directory.
var realReleases = map[slurmconf.Release]func() (string, error){
	slurmconf.Release2411: buildOnce(slurmrig.Slurm2411),
	slurmconf.Release2605: buildOnce(slurmrig.Slurm2605),
}

func buildOnce(r slurmrig.Release) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		return r.Root(), slurmrig.Build(context.Background(), r)
	})
}

// realSlurm is one release's daemons in namespaces of their own, one request
// at a time.
type realSlurm struct {
	t       *testing.T
	release slurmconf.Release
	dir     string
	in      io.Writer
	out     *bufio.Reader
	cases   int
}

// realConfig is what one run of a daemon reads.
type realConfig struct {
	files     map[string]string // topology.conf and its like
	plugin    lint.Plugin
	partition string // further words of the partition's line
	gres      string // slurm.conf's Gres= of every node
	lines     string // further lines of slurm.conf
}

const realBase = `ClusterName=rig
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/rig/state
SlurmdSpoolDir=/rig/spool
SlurmctldPidFile=/rig/run/slurmctld.pid
SlurmdPidFile=/rig/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
MailProg=/bin/true
GresTypes=gpu,nic
`

// startSlurm makes the namespaces, and the chroot where it is not there yet.
func startSlurm(t *testing.T, release slurmconf.Release) *realSlurm {
	t.Helper()
	slurmrig.NeedTest(t)
	slots.Take(t, slots.Slurm)
	root, err := realReleases[release]()
	if err != nil {
		t.Fatal(err)
	}
	s := &realSlurm{t: t, release: release, dir: t.TempDir()}
	script, err := filepath.Abs("testdata/serve.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "bash", script, root, s.dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start namespaces: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	s.in, s.out = in, bufio.NewReader(out)
	if _, rc := s.answer(); rc != "0" {
		t.Fatalf("namespaces for Slurm %s did not start: %s", release, rc)
	}
	return s
}

// answer reads up to the end of one answer.
func (s *realSlurm) answer() (lines []string, rc string) {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("read from Slurm %s: %v", s.release, err)
		}
		line = strings.TrimSuffix(line, "\n")
		if rc, ok := strings.CutPrefix(line, "@end "); ok {
			return lines, rc
		}
		lines = append(lines, line)
	}
}

// run writes the configuration and makes one request of it.
func (s *realSlurm) run(what, arg string, c realConfig) (lines []string, rc string) {
	s.t.Helper()
	s.cases++
	name := fmt.Sprintf("c%d", s.cases)
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	key := make([]byte, 64)
	_, _ = rand.Read(key)
	conf := realBase + "NodeName=" + realNodes + " NodeAddr=127.0.0.1 Port=[20001-20016] CPUs=16 RealMemory=1000 State=UNKNOWN" + c.gres +
		"\nPartitionName=main Nodes=ALL Default=YES State=UP " + c.partition + "\n" + c.lines
	if c.plugin != "" {
		conf += "TopologyPlugin=topology/" + string(c.plugin) + "\n"
	}
	files := map[string]string{"slurm.conf": conf, "slurm.key": string(key), "cgroup.conf": "CgroupPlugin=disabled\n"}
	maps.Copy(files, c.files)
	for n, text := range files {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := fmt.Fprintf(s.in, "%s %s %s\n", what, name, arg); err != nil {
		s.t.Fatalf("ask Slurm %s: %v", s.release, err)
	}
	lines, rc = s.answer()
	if err := os.RemoveAll(dir); err != nil {
		s.t.Fatal(err)
	}
	return lines, rc
}

// realNodes are the nodes that slurm.conf has in every run.
const realNodes = "n[001-016]"

// complaints are the lines of a log that say something is wrong.
func complaints(lines []string) string {
	var out []string
	for _, l := range lines {
		if strings.Contains(l, "fatal") || strings.Contains(l, "warning") || strings.Contains(l, "error") && !strings.Contains(l, "_state") && !strings.Contains(l, "state file") && !strings.Contains(l, "NOTE: Trying") {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}
