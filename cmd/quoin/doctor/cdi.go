package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
	"gopkg.in/yaml.v3"
)

// cdiFolders are where runtimes look for CDI's files.
var cdiFolders = []string{"etc/cdi", "var/run/cdi", "run/cdi"}

// toolkitFiles are where NVIDIA's runtime has its configuration: the package's, and the GPU
// Operator's.
var toolkitFiles = []string{"usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml", "etc/nvidia-container-runtime/config.toml"}

// cdiSpec is what is read of a CDI file.
type cdiSpec struct {
	Kind    string   `yaml:"kind"`
	Edits   cdiEdits `yaml:"containerEdits"`
	Devices []struct {
		Edits cdiEdits `yaml:"containerEdits"`
	} `yaml:"devices"`
}

type cdiEdits struct {
	Mounts []struct {
		HostPath string `yaml:"hostPath"`
	} `yaml:"mounts"`
}

// mounts are the paths of the host that containers get.
func (s *cdiSpec) mounts() (paths []string) {
	edits := []cdiEdits{s.Edits}
	for _, d := range s.Devices {
		edits = append(edits, d.Edits)
	}
	for _, e := range edits {
		for _, m := range e.Mounts {
			paths = append(paths, m.HostPath)
		}
	}
	return paths
}

func parseSpec(data []byte) (*cdiSpec, error) {
	s := &cdiSpec{}
	if err := yaml.Unmarshal(data, s); err != nil { // JSON too
		return nil, err
	}
	return s, nil
}

// specs looks whether the CDI files fit the driver: a file of an earlier driver names
// libraries that are gone, and then no container with a GPU starts.
func (h host) specs(f *findings) {
	kinds := map[string]bool{}
	for _, file := range h.cdiFiles() {
		path := "/" + strings.TrimPrefix(strings.TrimPrefix(file, h.root), "/")
		mend := "nvidia-ctk cdi generate --output=" + path + "; or remove the file, if the GPU Operator writes another"
		data, err := readBounded(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var spec *cdiSpec
		if err == nil {
			spec, err = parseSpec(data)
		}
		if err != nil {
			f.problem("cdi", mend, "%s cannot be read: %v", path, err)
			continue
		}
		if !strings.Contains(spec.Kind, "nvidia.com/") {
			continue
		}
		kinds[spec.Kind] = true
		for _, mount := range spec.mounts() {
			if _, err := os.Lstat(h.path(mount)); errors.Is(err, fs.ErrNotExist) {
				f.problem("cdi", mend, "%s (%s) names %s, which is not there: containers with a GPU do not start", path, spec.Kind, mount)
				break
			}
		}
	}
	h.mode(f, kinds)
}

// cdiFiles are the CDI files of NVIDIA's writers and others, each once.
func (h host) cdiFiles() (files []string) {
	seen := map[string]bool{}
	for _, folder := range cdiFolders {
		// /var/run is mostly a link to /run, of the machine and not of this process.
		if resolved, err := os.Readlink(h.path(filepath.Dir(folder))); err == nil && filepath.Clean("/"+resolved) == "/run" {
			folder = "run/cdi"
		}
		if seen[folder] {
			continue
		}
		seen[folder] = true
		for _, pattern := range []string{"*.yaml", "*.json"} {
			found, _ := filepath.Glob(filepath.Join(h.path(folder), pattern))
			files = append(files, found...)
		}
	}
	return files[:min(len(files), maxFiles)]
}

// mode looks whether NVIDIA's runtime finds the devices that it is set to look for.
func (h host) mode(f *findings, kinds map[string]bool) {
	for _, file := range toolkitFiles {
		data, err := readBounded(h.path(file))
		if err != nil {
			continue
		}
		mode, kind, err := parseToolkit(data)
		switch {
		case err != nil:
			f.problem("cdi", "correct the file: nvidia-ctk config --in-place", "/%s: %v", file, err)
		case mode == "cdi" && !kinds[kind] && !strings.HasPrefix(kind, "runtime."): // those it makes itself
			f.problem("cdi", "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml", "/%s: mode is cdi, and no file in /etc/cdi or /var/run/cdi has devices %s: containers with a GPU do not start", file, kind)
		}
		return
	}
}

// parseToolkit returns the mode of NVIDIA's runtime, and the kind of devices that it asks CDI for.
func parseToolkit(data []byte) (mode, kind string, err error) {
	var conf struct {
		Runtime struct {
			Mode  string `toml:"mode"`
			Modes struct {
				CDI struct {
					Kind string `toml:"default-kind"`
				} `toml:"cdi"`
			} `toml:"modes"`
		} `toml:"nvidia-container-runtime"`
	}
	if err := toml.Unmarshal(data, &conf); err != nil {
		return "", "", fmt.Errorf("read the mode: %w", err)
	}
	kind = conf.Runtime.Modes.CDI.Kind
	if kind == "" {
		kind = "nvidia.com/gpu"
	}
	return conf.Runtime.Mode, kind, nil
}
