//go:build cgo

package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
)

// TestNVMLOldMIG has MIG devices whose UUIDs name GPU, GPU instance and compute instance, as drivers before 470
// wrote them: a job of one, and a job of one of two compute instances of a GPU instance.
func TestNVMLOldMIG(t *testing.T) {
	t.Parallel()
	const gpu = "GPU-12345678-1234-1234-1234-12345678000"
	old := func(number int, instances string) string {
		return fmt.Sprintf("MIG-%s%d/%s", gpu, number, instances)
	}
	m := fake.New(t, "a100-mig",
		"gpu 0", "migdevice none", "migdevice 0 "+old(0, "11/0")+" 11 0 NVIDIA A100-SXM4-40GB MIG 1g.5gb",
		"gpu 1", "migdevice none", "migdevice 0 "+old(1, "1/0")+" 1 0 NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "migdevice 1 "+old(1, "1/1")+" 1 1 NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb")
	m.RealBoot()
	p := startNVMLAgent(t, 550, m)
	hook := func(verb, job, uuid string) {
		t.Helper()
		code, said := p.hook(verb, "SLURM_JOB_ID="+job, "SLURM_JOB_GPUS=0", "CUDA_VISIBLE_DEVICES="+uuid, "SLURM_JOB_START_TIME=1790000000", "SLURM_JOB_END_TIME=2000000000", "SLURMD_NODENAME=n1", "SLURM_JOB_NODELIST=n1")
		if code != 0 || said != "" {
			t.Errorf("%s of job %s: %d: %s", verb, job, code, said)
		}
	}
	label := func(id string) string {
		text, _ := os.ReadFile(filepath.Join(p.node.Mapping(), id)) //nolint:errcheck // absent: no label
		return strings.TrimSpace(string(text))
	}
	jobs := map[string]struct{ uuid, id, of string }{"7": {old(0, "11/0"), "0.11", gpu + "0"}, "8": {old(1, "1/1"), "1.1", gpu + "1"}}
	for job, d := range jobs {
		hook("prolog", job, d.uuid)
		if got := label(d.id); got != job {
			t.Errorf("the file %s has %q, want %q", d.id, got, job)
		}
	}
	for job, d := range jobs {
		p.until("the series of job "+job, func() bool {
			_, text := p.get("/metrics")
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "quoin_gpu_job_info{") && strings.Contains(line, `job_id="`+job+`"`) && strings.Contains(line, d.of) {
					return true
				}
			}
			return false
		})
		hook("epilog", job, d.uuid)
		if got := label(d.id); got != "" {
			t.Errorf("after the Epilog the file %s has %q", d.id, got)
		}
	}
}
