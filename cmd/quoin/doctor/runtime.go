package doctor

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// The bounds of what is read of a node's files.
const (
	maxConfig = 4 << 20
	maxFiles  = 64
)

// containerdFiles are where a kubelet's containerd has its configuration, in the order of the look.
var containerdFiles = []string{"etc/containerd/config.toml", "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
	"var/lib/rancher/k3s/agent/etc/containerd/config.toml", "etc/k0s/containerd.toml"}

// containerRuntime is what the configuration of a container runtime says.
type containerRuntime struct {
	name string // of the runtime and of its service
	// file is the first file, and loaded are all files that were read.
	file   string
	loaded []string
	// version is the version of the form, which containerd has.
	version int64
	// handlers has the program of each runtime, as far as it is named.
	handlers map[string]string
	fallback string // the handler of pods that name none
	// cdi says whether devices by CDI are on. Nil: the file does not say it.
	cdi *bool
	// off says that the kubelet cannot use it: Docker's package writes such a file.
	off bool
}

// host are a machine's files, below its root folder as this process sees it.
type host struct{ root string }

func (h host) path(name string) string { return filepath.Join(h.root, name) }

// runtime looks at the files of the container runtime, if there is a kubelet. Slurm on the
// host needs none.
func (h host) runtime(f *findings) {
	if _, err := os.Stat(h.path("var/lib/kubelet")); err != nil {
		return
	}
	r, err := h.containerd()
	if r == nil && err == nil {
		r, err = h.crio()
	}
	if err != nil {
		f.problem("runtime", "correct the file, and restart the runtime", "the container runtime's configuration cannot be read: %v", err)
		return
	}
	if r == nil {
		return
	}
	before := len(*f)
	h.handler(f, r)
	h.devices(f, r)
	if len(*f) == before {
		f.ok("runtime", "%s has runtime nvidia and gives devices by CDI", r.file)
	}
}

func (r *containerRuntime) configure(flags string) string {
	return fmt.Sprintf("nvidia-ctk runtime configure --runtime=%s%s && systemctl restart %s; with the GPU Operator, delete this node's pod of its toolkit", r.name, flags, r.name)
}

// handler looks whether the runtime starts containers by NVIDIA's program.
func (h host) handler(f *findings, r *containerRuntime) {
	program, there := r.handlers["nvidia"]
	if !there {
		if file := h.unloaded(r); file != "" {
			f.problem("runtime", fmt.Sprintf("add imports = [%q] to %s, and systemctl restart containerd", "/"+filepath.Dir(file)+"/*.toml", r.file), "/%s names runtime nvidia, and %s does not import it", file, r.file)
			return
		}
		f.warn("runtime", r.configure(""), "%s has no runtime nvidia: a pod with runtimeClassName: nvidia does not start here", r.file)
		return
	}
	if !filepath.IsAbs(program) {
		return // found by PATH, or a default
	}
	if _, err := os.Stat(h.path(program)); err != nil {
		who := "pods with runtimeClassName: nvidia do not start"
		if r.fallback == "nvidia" {
			who = "no pod starts on this node"
		}
		f.problem("runtime", r.configure(""), "%s: the program of runtime nvidia is missing (%s): %s", r.file, program, who)
	}
}

// unloaded returns a file beside containerd's that names the runtime and is not read, or "".
func (h host) unloaded(r *containerRuntime) string {
	if r.file != "/"+containerdFiles[0] {
		return ""
	}
	for _, pattern := range []string{"etc/containerd/conf.d/*.toml", "etc/containerd/config.d/*.toml"} {
		files, _ := filepath.Glob(h.path(pattern))
		for _, file := range files {
			if slices.Contains(r.loaded, file) {
				continue
			}
			other := containerRuntime{name: r.name, handlers: map[string]string{}}
			if h.readContainerd(&other, file) == nil && other.handlers["nvidia"] != "" {
				return strings.TrimPrefix(strings.TrimPrefix(file, h.root), "/")
			}
		}
	}
	return ""
}

// devices looks whether devices reach containers by CDI, as claims and GPU Operator 25.10 need it.
func (h host) devices(f *findings, r *containerRuntime) {
	mend := r.configure(" --cdi.enabled")
	switch {
	case r.cdi != nil && !*r.cdi:
		f.problem("runtime", mend, "%s: CDI is off (enable_cdi): no device of a claim reaches a container", r.file)
	case r.cdi == nil && r.name == "containerd" && r.version < 3:
		f.warn("runtime", mend, "%s does not set enable_cdi: containerd 1.7 then gives no device of a claim to a container; 2.0 does", r.file)
	}
	h.specs(f)
}

// containerd reads containerd's configuration. It is nil if there is none for a kubelet.
func (h host) containerd() (*containerRuntime, error) {
	for _, file := range containerdFiles {
		if _, err := os.Stat(h.path(file)); err != nil {
			continue
		}
		r := &containerRuntime{name: "containerd", file: "/" + file, handlers: map[string]string{}}
		if err := h.readContainerd(r, h.path(file)); err != nil {
			return nil, err
		}
		if !r.off {
			return r, nil
		}
	}
	return nil, nil
}

// readContainerd reads a file and what it imports. Later files win.
func (h host) readContainerd(r *containerRuntime, path string) error {
	if slices.Contains(r.loaded, path) {
		return nil
	}
	if len(r.loaded) >= maxFiles {
		return fmt.Errorf("%s imports more than %d files", r.file, maxFiles)
	}
	r.loaded = append(r.loaded, path)
	data, err := readBounded(path)
	if err != nil {
		return err
	}
	imports, err := r.parseContainerd(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, pattern := range imports {
		if filepath.IsAbs(pattern) {
			pattern = h.path(pattern)
		} else {
			pattern = filepath.Join(filepath.Dir(path), pattern)
		}
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if err := h.readContainerd(r, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// criPlugins are the names of containerd's plugin for kubelets in versions 1, 2 and 3 of the file.
var criPlugins = []string{"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}

// parseContainerd adds what a file of containerd says, and returns what it imports.
func (r *containerRuntime) parseContainerd(data []byte) (imports []string, err error) {
	var conf struct {
		Version  int64          `toml:"version"`
		Imports  []string       `toml:"imports"`
		Disabled []string       `toml:"disabled_plugins"`
		Plugins  map[string]any `toml:"plugins"`
	}
	if err := toml.Unmarshal(data, &conf); err != nil {
		return nil, err
	}
	r.version = max(r.version, conf.Version)
	for _, name := range criPlugins {
		r.off = r.off || slices.Contains(conf.Disabled, name)
		plugin := tableAt(conf.Plugins, name)
		if on, ok := plugin["enable_cdi"].(bool); ok {
			r.cdi = &on
		}
		section := tableAt(plugin, "containerd")
		if name, ok := section["default_runtime_name"].(string); ok {
			r.fallback = name
		}
		for name, one := range tableAt(section, "runtimes") {
			one, _ := one.(map[string]any)
			program, _ := tableAt(one, "options")["BinaryName"].(string)
			r.handlers[name] = program
		}
	}
	return conf.Imports, nil
}

// crio reads CRI-O's configuration: the file, and then its folder in order. CRI-O always reads
// CDI's files.
func (h host) crio() (*containerRuntime, error) {
	files, _ := filepath.Glob(h.path("etc/crio/crio.conf"))
	more, _ := filepath.Glob(h.path("etc/crio/crio.conf.d/*"))
	if files = append(files, more...); len(files) == 0 {
		return nil, nil
	}
	r := &containerRuntime{name: "crio", file: "/etc/crio", handlers: map[string]string{}}
	for _, file := range files[:min(len(files), maxFiles)] {
		data, err := readBounded(file)
		if err == nil {
			err = r.parseCRIO(data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return r, nil
}

func (r *containerRuntime) parseCRIO(data []byte) error {
	var conf struct {
		CRIO struct {
			Runtime struct {
				Default  string `toml:"default_runtime"`
				Runtimes map[string]struct {
					Path string `toml:"runtime_path"`
				} `toml:"runtimes"`
			} `toml:"runtime"`
		} `toml:"crio"`
	}
	if err := toml.Unmarshal(data, &conf); err != nil {
		return err
	}
	if conf.CRIO.Runtime.Default != "" {
		r.fallback = conf.CRIO.Runtime.Default
	}
	for _, name := range slices.Sorted(maps.Keys(conf.CRIO.Runtime.Runtimes)) {
		r.handlers[name] = conf.CRIO.Runtime.Runtimes[name].Path
	}
	return nil
}

func tableAt(m map[string]any, key string) map[string]any {
	t, _ := m[key].(map[string]any)
	return t
}

// readBounded reads a file that is not too large.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfig) {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("want a file of at most %d bytes", maxConfig)}
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
