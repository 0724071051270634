package hook

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// TestLongValues gives the program values that no Slurm gives. The job goes on, and each call
// prints lines that slurmd's log can hold.
func TestLongValues(t *testing.T) {
	long := strings.Repeat("x", 120<<10)
	for name, env := range map[string][]string{
		"job id":         {"SLURM_JOB_ID=" + long},
		"GPUs":           {"SLURM_JOB_GPUS=" + long},
		"many GPUs":      {"SLURM_JOB_GPUS=7-4000", "SLURM_JOB_START_TIME=1"},
		"no numbers":     {"SLURM_JOB_GPUS=" + strings.Repeat("a,", 60<<10)},
		"a long UUID":    {"CUDA_VISIBLE_DEVICES=GPU-" + long},
		"many UUIDs":     {"CUDA_VISIBLE_DEVICES=" + strings.Repeat("GPU-x,", 20<<10)},
		"line breaks":    {"CUDA_VISIBLE_DEVICES=GPU-" + strings.Repeat("\n", 120<<10)},
		"start time":     {"SLURM_JOB_GPUS=0", "SLURM_JOB_START_TIME=" + long},
		"SLUID":          {"SLURM_JOB_GPUS=0", "SLURM_JOB_SLUID=" + long},
		"cluster":        {"SLURM_JOB_GPUS=0", "SLURM_CLUSTER_NAME=" + long},
		"node":           {"SLURM_JOB_GPUS=0", "SLURMD_NODENAME=" + long},
		"nodes":          {"SLURM_JOB_GPUS=0", "SLURM_JOB_NODELIST=" + long, "SLURM_JOB_NUM_NODES=2"},
		"nodes, a range": {"SLURM_JOB_GPUS=0", "SLURM_JOB_NODELIST=n[1-99999999]", "SLURM_JOB_NUM_NODES=99999999"},
		"slurm.conf":     {"SLURM_JOB_GPUS=0", "SLURM_CONF=" + long},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.inventory("0", "1")
			gate := &rundir.Gate{Policy: rundir.GateWarn, Wait: rundir.Duration(time.Millisecond)}
			if err := rundir.Dir(p.run).WriteHookConfig(rundir.HookConfig{MappingDir: p.mapping, Gate: gate}); err != nil {
				t.Fatal(err)
			}
			for _, verb := range []string{"prolog", "epilog", "epilog"} {
				cmd := p.program(verb, "7", env...)
				var said bytes.Buffer
				cmd.Stderr = &said
				if err := cmd.Run(); err != nil {
					t.Errorf("%s: %v", verb, err)
				}
				if said.Len() > maxLines*(topology.MaxMessage+100) {
					t.Errorf("%s printed %d bytes", verb, said.Len())
				}
				for line := range strings.Lines(said.String()) {
					if len(line) > topology.MaxMessage+100 {
						t.Errorf("%s printed a line of %d bytes: %.200s", verb, len(line), line)
					}
				}
			}
			_ = filepath.WalkDir(p.run, func(path string, e os.DirEntry, err error) error {
				if info, err := e.Info(); err == nil && info.Size() > 64<<10 {
					t.Errorf("%s has %d bytes", path, info.Size())
				}
				return err
			})
		})
	}
}

func TestBounded(t *testing.T) {
	x := strings.Repeat("x", 2000)
	for name, tt := range map[string]struct{ message, want string }{
		"short": {"quoin-hook: a\nb\n", "quoin-hook: a\nb\n"},
		"long":  {"begin " + x + " want end\n", "begin " + x[:topology.MaxMessage-topology.MaxMessage/4-6] + "[... 992 bytes ...]" + x[:topology.MaxMessage/4-10] + " want end\n"},
		"many":  {strings.Repeat("a\n", maxLines+3), strings.Repeat("a\n", maxLines) + "quoin-hook: and 3 more lines\n"},
	} {
		var out strings.Builder
		if n, err := (bounded{&out}).Write([]byte(tt.message)); n != len(tt.message) || err != nil || out.String() != tt.want {
			t.Errorf("%s: wrote %d, %v, %q, want %q", name, n, err, out.String(), tt.want)
		}
	}
}
