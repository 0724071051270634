package gres

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGroups(t *testing.T) {
	gpus := []Line{{Name: "gpu", Type: "gb200", Files: []string{"/dev/nvidia0", "/dev/nvidia1"}, Cores: "0-71", Flags: []string{"nvidia_gpu_env"}}}
	mig := []Line{
		{Name: "gpu", Type: "a100_1g.5gb", MultipleFiles: []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}},
		{Name: "gpu", Type: "a100_2g.10gb", MultipleFiles: []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"}},
	}
	groups := newGroups(Options{})
	groups.with(mig).nodes = []string{"n010"}
	groups.with(gpus).nodes = []string{"n003", "n001", "n002"}
	groups.with(nil).nodes = []string{"login"}
	lines := append(groups.lines(), Line{AutoDetect: "off"}, Line{Name: "gpu", Count: 4, Links: []int{-1, 16}, Files: []string{"/dev/nvidia5", "/dev/nvidia0"}})
	text, err := Render(lines, "for a test")
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
		t.Errorf("Render (-want +got):\n%s", diff)
	}
	back, err := Parse("gres.conf", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines, back); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, line := range map[string]Line{
		"no name":        {Type: "h200"},
		"empty":          {},
		"space":          {Name: "gpu", Type: "nvidia h200"},
		"comment":        {Name: "gpu", Type: "a#b"},
		"comma in file":  {Name: "gpu", Files: []string{"/dev/a,b"}},
		"bracket in one": {Name: "gpu", Files: []string{"/dev/a[0-1]"}},
	} {
		if text, err := Render([]Line{line}, ""); err == nil {
			t.Errorf("%s: Render gave %q", name, text)
		}
	}
}
