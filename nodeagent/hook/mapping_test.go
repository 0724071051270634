package hook

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// TestReadOnlyMapping cannot write the labels: the job goes on, and its record says
// what should be there.
func TestReadOnlyMapping(t *testing.T) {
	p := newPlace(t)
	cmd := p.program("prolog", "7")
	script := `mkdir -p "$2"; mount -t tmpfs -o ro none "$2" || exit 9
for verb in prolog epilog; do SLURM_JOB_ID=7 SLURM_JOB_GPUS=0 "$0" $verb --run-dir "$1" --mapping-dir "$2" || exit 8; ls "$1/jobs"; done`
	out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "bash", "-c", script, cmd.Path, p.run, p.mapping).CombinedOutput()
	if err != nil && cmdExit(err) != 8 {
		t.Skipf("needs a mount of its own: %v\n%s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "read-only file system") || !strings.Contains(string(out), "\n7.json\n") || strings.HasSuffix(string(out), "7.json\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func cmdExit(err error) int {
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode()
	}
	return -1
}

// TestNoMapping keeps the records of jobs for a site whose exporter reads no mapping.
func TestNoMapping(t *testing.T) {
	t.Chdir(t.TempDir())
	p := newPlace(t)
	p.mapping = dcgm.NoMapping
	if err := os.Mkdir("none", 0o755); err != nil { // a folder of that name is not taken for one
		t.Fatal(err)
	}
	said := p.hook("prolog", "7", "SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=100")
	r, err := rundir.Dir(p.run).ReadRecord("7")
	if err != nil || r == nil || len(r.GPUs) != 1 {
		t.Errorf("record %+v, %v", r, err)
	}
	said += p.hook("prolog", "7", "SLURM_JOB_GPUS=1", "SLURM_JOB_START_TIME=200")
	if err := rundir.Dir(p.run).End(rundir.MarkOf(rundir.JobIdentity{JobID: "8"}, rundir.Run{}, time.Now(), "")); err != nil {
		t.Fatal(err)
	}
	said += p.hook("epilog", "7", "SLURM_JOB_START_TIME=200")
	if strings.Contains(said, "mapping") {
		t.Errorf("said %q", said)
	}
	if r, err := rundir.Dir(p.run).ReadRecord("7"); r != nil || err != nil {
		t.Errorf("the record is left: %+v, %v", r, err)
	}
	endings, err := rundir.Dir(p.run).Endings()
	if len(endings) != 2 || err != nil {
		t.Errorf("endings %+v, %v; want one for each run", endings, err)
	}
	if entries, err := os.ReadDir("none"); err != nil || len(entries) != 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if marks, err := rundir.Dir(p.run).Marks(); err != nil || len(marks) != 0 {
		t.Errorf("marks %+v, %v", marks, err)
	}
}
