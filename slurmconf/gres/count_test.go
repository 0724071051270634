package gres

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestFewer compares Gres= of slurm.conf with lines of gres.conf.
func TestFewer(t *testing.T) {
	for name, tt := range map[string]struct {
		counted, conf string
		want          []Shortage
		detects       bool
	}{
		"as many":         {counted: "gpu:a:2,gpu:b:1", conf: "Name=gpu Type=b File=/dev/b\nName=gpu Type=a File=/dev/a[0-1]"},
		"more":            {counted: "gpu:a:1", conf: "Name=gpu Type=a File=/dev/a[0-1]"},
		"fewer of a Type": {counted: "gpu:a:2,gpu:b:2", conf: "Name=gpu Type=a File=/dev/a[0-2]\nName=gpu Type=b File=/dev/b", want: []Shortage{{GPUCount{"b", 2}, 1}}},
		"another Type":    {counted: "gpu:A:1", conf: "Name=gpu Type=a File=/dev/a0", want: []Shortage{{GPUCount{"A", 1}, 0}}},
		"of all Types":    {counted: "gpu:4", conf: "Name=gpu Type=a File=/dev/a[0-1]\nName=gpu Type=b File=/dev/b", want: []Shortage{{GPUCount{"", 4}, 3}}},
		"instances":       {counted: "gpu:2", conf: "Name=gpu Type=a MultipleFiles=/dev/a0,/dev/c1", want: []Shortage{{GPUCount{"", 2}, 1}}},
		"without a file":  {counted: "gpu:4", conf: "Name=gpu Count=4", want: []Shortage{{GPUCount{"", 4}, 0}}},
		"others":          {counted: "gpu:1", conf: "Name=shard Count=8\nName=gpu File=/dev/a0"},
		"detected":        {counted: "gpu:1", conf: "AutoDetect=nvidia", want: []Shortage{{GPUCount{"", 1}, 0}}, detects: true},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := Parse("gres.conf", []byte(tt.conf))
			if err != nil {
				t.Fatal(err)
			}
			has, known := Count(lines)
			if diff := cmp.Diff(tt.want, Fewer(ReadCounts(tt.counted).GPUs, has), cmpopts.EquateEmpty()); diff != "" || known == tt.detects {
				t.Errorf("known %t, short (-want +got):\n%s", known, diff)
			}
		})
	}
}
