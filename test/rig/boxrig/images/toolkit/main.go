// Command toolkit is the nvidia runtime of the box's nodes. As NVIDIA's container toolkit does,
// it gives a container that asks for GPUs (NVIDIA_VISIBLE_DEVICES) the driver's library and
// nvidia-imex-ctl of the node, without what these are linked with, and then runs runc. The library
// is the fake NVML, so the container also sees the folder of the file that the fake reads.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "toolkit:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if at := slices.Index(args, "--bundle"); at >= 0 && at+1 < len(args) && slices.Contains(args, "create") {
		if err := inject(filepath.Join(args[at+1], "config.json")); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ()) //nolint:gosec // its whole purpose
}

// inject adds the driver to the configuration of a container that asks for GPUs.
func inject(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&config); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	process, _ := config["process"].(map[string]any)
	env, _ := process["env"].([]any)
	if !slices.ContainsFunc(env, func(v any) bool { s, _ := v.(string); return strings.HasPrefix(s, "NVIDIA_VISIBLE_DEVICES=") }) {
		return nil
	}
	mounts, _ := config["mounts"].([]any)
	mount := func(from, to string, options ...string) {
		mounts = append(mounts, map[string]any{"type": "bind", "source": from, "destination": to, "options": append(options, "ro", "nosuid", "nodev")})
	}
	for _, path := range []string{images.Library, images.IMEXCtl} {
		mount(images.DriverFolder+path, path, "bind")
	}
	folder := filepath.Dir(images.MachineFile)
	mount(folder, folder, "rbind", "rslave")
	process["env"], config["mounts"] = append(env, "FAKE_NVML="+images.MachineFile), mounts
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
