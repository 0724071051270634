package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The files of a node of the GPU Operator, as its toolkit writes them.
const (
	confMain = "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n"
	confCDI  = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
      BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
`
	conf3    = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\nBinaryName = '/usr/bin/nvidia-container-runtime'\n"
	confCRIO = "[crio.runtime]\ndefault_runtime = \"nvidia\"\n[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/nvidia-container-runtime\"\n"
	spec     = `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {"mounts": [{"hostPath": "/usr/lib/libcuda.so.580.95.05"}]}}]}`
	library  = "usr/lib/libcuda.so.580.95.05"
	program  = "usr/local/nvidia/toolkit/nvidia-container-runtime"
	main     = "etc/containerd/config.toml"
	dropIn   = "etc/containerd/conf.d/99-nvidia.toml"
)

// TestRuntime has a node for each accident with its container runtime.
func TestRuntime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		host  bool     // no kubelet
		want  []string // parts of what is not ok
		fine  bool     // one finding says that all is well
	}{
		{name: "the GPU Operator", files: map[string]string{main: confMain, dropIn: confCDI, program: "", library: "", "run/cdi/nvidia.yaml": spec}, fine: true},
		{name: "containerd 2", files: map[string]string{main: conf3, "usr/bin/nvidia-container-runtime": ""}, fine: true},
		{name: "CRI-O", files: map[string]string{"etc/crio/crio.conf.d/99-nvidia.conf": confCRIO, "usr/bin/nvidia-container-runtime": ""}, fine: true},
		{name: "RKE2", files: map[string]string{"var/lib/rancher/rke2/agent/etc/containerd/config.toml": conf3, "usr/bin/nvidia-container-runtime": ""}, fine: true},
		{name: "Slurm on the host, Docker beside it", host: true, files: map[string]string{main: "disabled_plugins = [\"cri\"]\n"}},
		{name: "a kubelet, and no file of a runtime"},
		{name: "the file of Docker's package beside CRI-O", files: map[string]string{main: "disabled_plugins = [\"cri\"]\n", "etc/crio/crio.conf": confCRIO, "usr/bin/nvidia-container-runtime": ""}, fine: true},
		{name: "no runtime nvidia", files: map[string]string{main: "version = 3\n"}, want: []string{"warning runtime: /etc/containerd/config.toml has no runtime nvidia"}},
		{name: "CRI-O without it", files: map[string]string{"etc/crio/crio.conf": "[crio.runtime]\n"}, want: []string{"warning runtime: /etc/crio has no runtime nvidia"}},
		{name: "a drop-in that is not imported", files: map[string]string{main: "version = 3\n", "etc/containerd/config.d/99-nvidia.toml": conf3},
			want: []string{"problem runtime: /etc/containerd/config.d/99-nvidia.toml names runtime nvidia, and /etc/containerd/config.toml does not import it"}},
		{name: "the toolkit is gone", files: map[string]string{main: confMain, dropIn: confCDI},
			want: []string{"problem runtime: /etc/containerd/config.toml: the program of runtime nvidia is missing (/usr/local/nvidia/toolkit/nvidia-container-runtime): pods with runtimeClassName"}},
		{name: "the toolkit is gone, and it is the default", files: map[string]string{main: confMain, dropIn: strings.Replace(confCDI, `"runc"`, `"nvidia"`, 1)},
			want: []string{"no pod starts on this node"}},
		{name: "CDI is off", files: map[string]string{main: confMain, dropIn: strings.Replace(confCDI, "enable_cdi = true", "enable_cdi = false", 1), program: ""},
			want: []string{"problem runtime: /etc/containerd/config.toml: CDI is off"}},
		{name: "CDI is not named", files: map[string]string{main: strings.Replace(confCDI, "enable_cdi = true", "", 1), program: ""},
			want: []string{"warning runtime: /etc/containerd/config.toml does not set enable_cdi"}},
		{name: "a library of an earlier driver", files: map[string]string{main: confMain, dropIn: confCDI, program: "", "etc/cdi/nvidia.yaml": spec},
			want: []string{"problem cdi: /etc/cdi/nvidia.yaml (nvidia.com/gpu) names /usr/lib/libcuda.so.580.95.05, which is not there"}},
		{name: "a CDI file of others", files: map[string]string{main: confMain, dropIn: confCDI, program: "", "etc/cdi/x.json": strings.Replace(spec, "nvidia.com", "example.com", 1)}, fine: true},
		{name: "a broken CDI file", files: map[string]string{main: confMain, dropIn: confCDI, program: "", "etc/cdi/nvidia.yaml": "kind: [\n"}, want: []string{"problem cdi: /etc/cdi/nvidia.yaml cannot be read"}},
		{name: "mode cdi without devices", files: map[string]string{main: conf3, "usr/bin/nvidia-container-runtime": "", "etc/nvidia-container-runtime/config.toml": "[nvidia-container-runtime]\nmode = \"cdi\"\n"},
			want: []string{"problem cdi: /etc/nvidia-container-runtime/config.toml: mode is cdi, and no file in /etc/cdi or /var/run/cdi has devices nvidia.com/gpu"}},
		{name: "mode cdi with devices", files: map[string]string{main: conf3, "usr/bin/nvidia-container-runtime": "", library: "", "var/run/cdi/nvidia.json": spec,
			"etc/nvidia-container-runtime/config.toml": "[nvidia-container-runtime]\nmode = \"cdi\"\n"}, fine: true},
		{name: "another kind by default", files: map[string]string{main: conf3, "usr/bin/nvidia-container-runtime": "", library: "", "var/run/cdi/nvidia.json": spec,
			"usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml": "[nvidia-container-runtime]\nmode = \"cdi\"\n[nvidia-container-runtime.modes.cdi]\ndefault-kind = \"management.nvidia.com/gpu\"\n"},
			want: []string{"has devices management.nvidia.com/gpu"}},
		{name: "a broken file", files: map[string]string{main: "version = \n"}, want: []string{"problem runtime: the container runtime's configuration cannot be read"}},
		{name: "a file that imports itself", files: map[string]string{main: "version = 3\nimports = [\"config.toml\"]\n"}, want: []string{"has no runtime nvidia"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := host{t.TempDir()}
			for name, text := range tt.files {
				put(t, h.path(name), text)
			}
			if !tt.host {
				put(t, h.path("var/lib/kubelet/config.yaml"), "")
			}
			var f findings
			h.runtime(&f)
			got := worst(f)
			if len(got) != len(tt.want) || len(f) > len(got) != tt.fine {
				t.Fatalf("findings %v, want %q", f, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("finding %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCDILink has /var/run as the link that it mostly is: a file there is read once.
func TestCDILink(t *testing.T) {
	h := host{t.TempDir()}
	put(t, h.path("run/cdi/nvidia.yaml"), spec)
	put(t, h.path("var/x"), "")
	if err := os.Symlink("/run", h.path("var/run")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{h.path("run/cdi/nvidia.yaml")}, h.cdiFiles()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// FuzzRuntimeFiles reads any text as each of the files. A runtime has no nil handlers, and a
// kind of devices is always asked for.
func FuzzRuntimeFiles(f *testing.F) {
	for _, seed := range []string{confMain, confCDI, conf3, confCRIO, spec, "plugins = 1", "kind: &a [*a]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := containerRuntime{handlers: map[string]string{}}
		_, _ = r.parseContainerd(data)
		_ = r.parseCRIO(data)
		if s, err := parseSpec(data); err == nil && s == nil {
			t.Error("no spec and no error")
		} else if err == nil {
			s.mounts()
		}
		if _, kind, err := parseToolkit(data); err == nil && kind == "" {
			t.Error("no kind of devices")
		}
	})
}
