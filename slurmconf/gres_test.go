package slurmconf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGroupGres(t *testing.T) {
	gpus := []GresLine{{Name: "gpu", Type: "gb200", Files: []string{"/dev/nvidia0", "/dev/nvidia1"}, Cores: "0-71", Flags: []string{"nvidia_gpu_env"}}}
	mig := []GresLine{
		{Name: "gpu", Type: "a100_1g.5gb", MultipleFiles: []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}},
		{Name: "gpu", Type: "a100_2g.10gb", MultipleFiles: []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"}},
	}
	groups := newGresGroups(GresOptions{})
	groups.with(mig).nodes = []string{"n010"}
	groups.with(gpus).nodes = []string{"n003", "n001", "n002"}
	groups.with(nil).nodes = []string{"login"}
	lines := append(groups.lines(), GresLine{AutoDetect: "off"}, GresLine{Name: "gpu", Count: 4, Links: []int{-1, 16}, Files: []string{"/dev/nvidia5", "/dev/nvidia0"}})
	text, err := RenderGres(lines, "for a test")
	if err != nil {
		t.Fatal(err)
	}
	want := `# for a test
NodeName=n[001-003] Name=gpu Type=gb200 File=/dev/nvidia[0-1] Cores=0-71 Flags=nvidia_gpu_env
NodeName=n010 Name=gpu Type=a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22
NodeName=n010 Name=gpu Type=a100_2g.10gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap30,/dev/nvidia-caps/nvidia-cap31
AutoDetect=off
Name=gpu Count=4 File=/dev/nvidia5,/dev/nvidia0 Links=-1,16
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("RenderGres (-want +got):\n%s", diff)
	}
	back, err := ParseGres("gres.conf", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines, back); diff != "" {
		t.Errorf("ParseGres (-want +got):\n%s", diff)
	}
}

func TestRenderGresRefuses(t *testing.T) {
	for name, line := range map[string]GresLine{
		"no name":        {Type: "h200"},
		"empty":          {},
		"space":          {Name: "gpu", Type: "nvidia h200"},
		"comment":        {Name: "gpu", Type: "a#b"},
		"comma in file":  {Name: "gpu", Files: []string{"/dev/a,b"}},
		"bracket in one": {Name: "gpu", Files: []string{"/dev/a[0-1]"}},
	} {
		if text, err := RenderGres([]GresLine{line}, ""); err == nil {
			t.Errorf("%s: RenderGres gave %q", name, text)
		}
	}
}

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{"24.11": Release2411, "25.05.3": Release2505, "slurm 25.11.2": Release2511, "slurm-wlm 26.05.5": Release2605, " 26.05 ": Release2605} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("ParseRelease(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "25", "23.11", "25.5", "2505", "a.b", "27.05"} {
		if got, err := ParseRelease(text); err == nil {
			t.Errorf("ParseRelease(%q) = %v, want an error", text, got)
		}
	}
}
