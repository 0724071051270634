// Package nvidiadra runs the ComputeDomain side of NVIDIA's DRA driver in a box: its
// controller, its kubelet plugin on each node and its daemons in the pods of its own
// DaemonSets. The GPUs' driver below it is simulated, by files and the fake NVML, and so is
// the IMEX daemon.
package nvidiadra

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quoin-hpc/quoin/test/rig/boxrig"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/machine"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

//go:embed driver.yaml
var objects string

const (
	namespace = "nvidia-dra-driver"
	// driver is where a node has the files of the GPUs' driver.
	driver = images.DriverFolder
)

// HostRoot is a folder of each node in which /proc and /sys are as with a loaded driver, and the
// configurations of the driver's IMEX daemons are where they are. Pods that mount the kubelet's
// plugins see it too.
const HostRoot = "/var/lib/kubelet/plugins/root"

// loaded are the driver's files on a node with the device files' major numbers.
var loaded = map[string]string{
	"/etc/proc-devices":            "Character devices:\n195 nvidia\n508 nvidia-caps\n509 nvidia-caps-imex-channels\n\nBlock devices:\n",
	driver + "/usr/bin/nvidia-smi": "",
	driver + "/proc/driver/nvidia/capabilities/fabric-imex-mgmt": "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n",
}

// mounts makes HostRoot. A container has a /proc of its own, and nothing can be mounted
// on its files.
const mounts = `set -e
mkdir -p ` + HostRoot + `/proc ` + HostRoot + `/sys ` + HostRoot + `/var/lib/kubelet/plugins
ln -s /var/lib/kubelet/plugins/compute-domain.nvidia.com ` + HostRoot + `/var/lib/kubelet/plugins
mount -t proc proc ` + HostRoot + `/proc
mount --bind /etc/proc-devices ` + HostRoot + `/proc/devices
mount --rbind /sys ` + HostRoot + `/sys`

// LoadDriver makes a node look as if the GPUs' driver were loaded, of the release that the
// library says.
func LoadDriver(ctx context.Context, m *machine.Machine, library, release string) error {
	text, err := os.ReadFile(library)
	if err != nil {
		return fmt.Errorf("load driver: %w", err)
	}
	if err := programs.Put(ctx, programs.IMEX, m.Path(driver+images.IMEXCtl)); err != nil {
		return fmt.Errorf("load driver: %w", err)
	}
	files := map[string]string{driver + images.Library: string(text), filepath.Join(filepath.Dir(driver+images.Library), "libcuda.so."+release): ""}
	for _, some := range []map[string]string{files, loaded} {
		for name, text := range some {
			if err := m.WriteFile(name, text); err != nil {
				return fmt.Errorf("load driver: %w", err)
			}
		}
	}
	_, err = m.Run(ctx, "sh", "-c", mounts)
	return err
}

// Install installs the DRA driver on nodes whose GPUs' driver is loaded.
func Install(ctx context.Context, b *boxrig.Box) error {
	built, err := images.Driver(ctx)
	if err != nil {
		return err
	}
	crds, classes, err := kuberig.DriverObjects(ctx, images.DriverRelease)
	if err != nil {
		return err
	}
	if _, err := b.Kubectl(ctx, "apply", "--server-side", "-f", crds); err != nil {
		return fmt.Errorf("install NVIDIA's DRA driver: %w", err)
	}
	if err := b.Apply(ctx, classes+"---\n"+objects); err != nil {
		return fmt.Errorf("install NVIDIA's DRA driver: %w", err)
	}
	for _, m := range b.Machines {
		if err := startPlugin(ctx, m, built); err != nil {
			return fmt.Errorf("start the kubelet plugin of %s: %w", m.Name, err)
		}
	}
	return b.Machines[0].Daemon(ctx, "compute-domain-controller", filepath.Join(built, "compute-domain-controller"), "--kubeconfig="+boxrig.AdminKubeconfig,
		"--namespace="+namespace, "--pod-name=box", "--image-name="+images.DaemonImage, "--log-verbosity-cd-daemon=0", "--http-endpoint=127.0.0.1:8080")
}

// startPlugin starts the kubelet plugin on the node itself, where it has the rights that
// its pod would have. Controller and plugin read their templates from /templates.
func startPlugin(ctx context.Context, m *machine.Machine, built string) error {
	templates, err := filepath.Glob(filepath.Join(built, "templates", "*"))
	if err != nil {
		return err
	}
	for _, path := range templates {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := m.WriteFile(filepath.Join("/templates", filepath.Base(path)), string(text)); err != nil {
			return err
		}
	}
	return m.Daemon(ctx, "compute-domain-kubelet-plugin", "env", nvml.Variable+"="+images.MachineFile, "ALT_PROC_DEVICES_PATH="+HostRoot+"/proc/devices",
		filepath.Join(built, "compute-domain-kubelet-plugin"), "--kubeconfig="+boxrig.AdminKubeconfig, "--node-name="+m.Name, "--namespace="+namespace,
		"--nvidia-driver-root="+driver, "--container-driver-root="+driver, "--nvidia-cdi-hook-path=/usr/bin/true", "--cdi-root=/run/cdi")
}
