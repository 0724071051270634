package gres

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForAll(t *testing.T) {
	const two, three = "NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-3]\n", "NodeName=n3 Name=gpu File=/dev/nvidia[0-7]\n"
	const mig = "NodeName=n[1-2] Name=gpu MultipleFiles=/dev/nvidia4,/dev/nvidia-caps/nvidia-cap21\n"
	for _, tt := range []struct {
		name, text, detect string
		nodes              int
		want               string // empty: no lines are right for all
	}{
		{"none", "", "", 0, ""},
		{"all alike", two + mig, "", 2, "Name=gpu File=/dev/nvidia[0-3]\nName=gpu MultipleFiles=/dev/nvidia4,/dev/nvidia-caps/nvidia-cap21\n"},
		{"a node without a line", two, "", 3, ""},
		{"two kinds", two + three, "", 3, ""},
		{"a node without a report", two + "NodeName=n3 AutoDetect=nvidia\n", "", 3, "Name=gpu File=/dev/nvidia[0-3]\n"},
		{"a node without a report, and one without a line", two + "NodeName=n3 AutoDetect=nvidia\n", "", 4, ""},
		{"all detect", "NodeName=n[1-2] AutoDetect=nvidia\n", "nvidia", 2, "AutoDetect=nvidia\n"},
		{"all detect, a node without GPUs", "NodeName=n[1-2] AutoDetect=nvidia\n", "nvidia", 3, "AutoDetect=nvidia\n"},
		{"all detect by nvml", "NodeName=n[1-2] AutoDetect=nvml\n", "nvml", 2, "AutoDetect=nvml\n"},
		{"all detect by nvml, a node without GPUs", "NodeName=n[1-2] AutoDetect=nvml\n", "nvml", 3, ""},
		{"MIG beside detection", two + "NodeName=n3 AutoDetect=nvidia\n", "nvidia", 3, ""},
		{"two ways of detection", "NodeName=n1 AutoDetect=nvidia\nNodeName=n2 AutoDetect=nvml\n", "", 2, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := Parse("gres.conf", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if all, right := (&Options{AutoDetect: tt.detect}).ForAll(lines, tt.nodes); right {
				text, err := Render(all, "")
				if err != nil {
					t.Fatal(err)
				}
				got = string(text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
