package exporter_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
)

const counters = "# comment\nDCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).\nDCGM_FI_DRIVER_VERSION, label, Driver Version\n"

var devices = []exporter.Device{
	{GPU: 0, UUID: "GPU-0", Model: "NVIDIA A100-SXM4-40GB", Use: exporter.Use{Utilization: 0.5}},
	{GPU: 1, UUID: "GPU-1", Model: "NVIDIA A100-SXM4-40GB", Profile: "1g.5gb", Instance: 7, Use: exporter.Use{Engine: 0.25}},
}

// TestWrite prints both generations, with jobs on a GPU and on a MIG instance.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"0": "7\n8\n", "1.7": "9\n", "x": "10\n", "2": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".quoin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		x    exporter.Exporter
		want string
	}{
		{"before 4.9", exporter.Exporter{Hostname: "n", Driver: "580", Counters: counters}, `# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n",DCGM_FI_DRIVER_VERSION="580",hpc_job="7"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n",DCGM_FI_DRIVER_VERSION="580",hpc_job="8"} 50
`},
		{"since 4.9", exporter.Exporter{Since49: true, Hostname: "n", Counters: "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO, gauge, x\n"}, `# HELP DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO x
# TYPE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO gauge
DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{gpu="0",UUID="GPU-0",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",hostname="n",hpc_job="7"} 0.000000
DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{gpu="0",UUID="GPU-0",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",hostname="n",hpc_job="8"} 0.000000
DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{gpu="1",UUID="GPU-1",pci_bus_id="00000000:11:00.0",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",hostname="n",hpc_job="9"} 0.250000
`},
		{"with --use-old-namespace", exporter.Exporter{OldNamespace: true, Hostname: "n", Counters: "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x\n"}, `# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE x
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",uuid="GPU-0",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n",hpc_job="7"} 0.000000
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",uuid="GPU-0",pci_bus_id="00000000:10:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",Hostname="n",hpc_job="8"} 0.000000
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",uuid="GPU-1",pci_bus_id="00000000:11:00.0",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="n",hpc_job="9"} 0.250000
`},
	} {
		c.x.Mapping = dir
		var out bytes.Buffer
		if err := c.x.Write(&out, devices); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestWriteFails fails the whole scrape where the exporter does.
func TestWriteFails(t *testing.T) {
	dangling := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dangling, "0")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x    exporter.Exporter
		want string
	}{
		{exporter.Exporter{Counters: counters, Mapping: dangling}, "read job mapping"},
		{exporter.Exporter{Counters: counters, Mapping: filepath.Join(dangling, "missing")}, "read job mapping"},
		{exporter.Exporter{Counters: counters, Since49: true}, "not of this generation"},
		{exporter.Exporter{Counters: "DCGM_FI_DEV_NONE, gauge, x"}, "does not know it"},
		{exporter.Exporter{Counters: "DCGM_FI_DEV_GPU_UTIL, gauge"}, "line 1"},
		{exporter.Exporter{Counters: "DCGM_FI_DEV_GPU_UTIL, histogram, x"}, "histogram"},
		{exporter.Exporter{Counters: counters + "DCGM_FI_DEV_GPU_UTIL, gauge, x"}, "twice"},
	} {
		if err := c.x.Write(&bytes.Buffer{}, devices); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.x, err, c.want)
		}
	}
}

// FuzzParseCounters keeps what it accepts whole: a row for each field, none twice.
func FuzzParseCounters(f *testing.F) {
	f.Add(counters)
	f.Add("a, gauge, b, c\n\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := exporter.ParseCounters(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, c := range rows {
			again.WriteString(c.Field + "," + c.Type + "," + c.Help + "\n")
		}
		other, err := exporter.ParseCounters(again.String())
		if err != nil || cmp.Diff(rows, other) != "" {
			t.Errorf("%q: %v: %v, %v", text, err, rows, other)
		}
	})
}
