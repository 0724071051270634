package topology

import (
	"fmt"
	"strings"
	"testing"
)

func TestGRESDevices(t *testing.T) {
	gpu := func(index, minor int, product string, profiles ...string) GPU {
		g := GPU{Index: index, Minor: &minor, Product: product}
		for i, p := range profiles {
			g.MIG = append(g.MIG, MIGInstance{Profile: p, GPUInstanceID: i})
		}
		return g
	}
	for _, tt := range []struct {
		name string
		gpus []GPU
		want string
	}{
		{"by minor", []GPU{gpu(0, 2, "a"), gpu(1, 0, "a"), gpu(2, 1, "a")}, "0 1 2"},
		{"products apart", []GPU{gpu(0, 0, "a"), gpu(1, 1, "b"), gpu(2, 2, "a"), gpu(3, 3, "b")}, "0 2 1 3"},
		{"partly MIG", []GPU{gpu(0, 0, "a"), gpu(1, 1, "a", "1g", "1g"), gpu(2, 2, "a")}, "0 2 1/0 1/1"},
		{"profiles apart", []GPU{gpu(0, 0, "a", "3g", "1g"), gpu(1, 1, "a", "3g", "1g", "1g")}, "0/0 1/0 0/1 1/1 1/2"},
		{"a profile without a name is no whole GPU", []GPU{gpu(0, 0, "a", ""), gpu(1, 1, "a"), gpu(2, 2, "a", "")}, "0/0 2/0 1"},
		{"MIG without instances", []GPU{gpu(0, 0, "a"), {Index: 1, Product: "a", MIGEmpty: true}, gpu(2, 2, "a")}, "0 2"},
		{"none", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, d := range (&Node{GPUs: tt.gpus}).GRESDevices() {
				s := fmt.Sprint(*d.GPU.Minor)
				if d.MIG != nil {
					s += fmt.Sprintf("/%d", d.MIG.GPUInstanceID)
				}
				got = append(got, s)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("devices %s, want %s", got, tt.want)
			}
		})
	}
}
