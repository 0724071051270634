package gres

import "testing"

// TestDetected says of lines whether slurmd finds by itself what they list.
func TestDetected(t *testing.T) {
	const whole = "NodeName=n[1-2] Name=gpu Type=gb200 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env"
	for _, tt := range []struct {
		name, text string
		options    Options
		want       bool
	}{
		{"whole GPUs", whole, Options{}, true},
		{"of two products", whole + "\nNodeName=n3 Name=gpu Type=h100_80gb_hbm3 File=/dev/nvidia[0-7]", Options{}, true},
		{"beside nodes that detect theirs", whole + "\nNodeName=n3 AutoDetect=nvidia", Options{}, true},
		{"and the site says so", "NodeName=n[1-3] AutoDetect=nvidia", Options{AutoDetect: AutoDetectNvidia}, true},
		{"two Types on a node", "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3]\nNodeName=n[1-2] Name=gpu Type=h100 File=/dev/nvidia[4-7]", Options{}, false},
		{"no lines", "", Options{}, false},
		{"MIG instances", whole + "\nNodeName=n3 Name=gpu Type=a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22", Options{}, false},
		{"cores", whole + " Cores=0-71", Options{Cores: true}, false},
		{"links", "NodeName=n1 Name=gpu Type=gb200 File=/dev/nvidia0 Links=-1,4", Options{}, false},
		{"a Type of the site", whole, Options{Types: map[string]string{"NVIDIA GB200": "big"}}, false},
		{"a Type that is no part of the product", "NodeName=n1 Name=gpu Type=gpu_6000 File=/dev/nvidia0", Options{}, false},
		{"another way to detect", "NodeName=n1 AutoDetect=nvml", Options{}, false},
		{"the site wants lists", whole, Options{AutoDetect: AutoDetectOff}, false},
		{"the site wants another way", whole, Options{AutoDetect: AutoDetectNVML}, false},
	} {
		lines, err := Parse("gres.conf", []byte(tt.text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if line, ok := tt.options.Detected(lines); ok != tt.want || ok && (line.AutoDetect != AutoDetectNvidia || line.Nodes != "") {
			t.Errorf("%s: %v %+v, want %v", tt.name, ok, line, tt.want)
		}
	}
}
