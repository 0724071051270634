package boxrig

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/machine"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// network is the configuration of the node's container network. It hides no address
// (ipMasq): slurmctld takes the address that a slurmd registers from.
const network = `{"cniVersion":"1.0.0","name":"box","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","ranges":[[{"subnet":"%s"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
`

// containerd's configuration. A process of a test may lack the right to lower its score
// for the kernel's out-of-memory killer.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + images.Pause + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
    # As NVIDIA's container toolkit configures it. RuntimeClass nvidia names it.
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
        BinaryName = "%s"
        SystemdCgroup = false
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [10.250.0.1]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
maxPods: 60
syncFrequency: 10s
`

// startNode starts containerd, gives it the images, and starts kubelet and kube-proxy.
func (b *Box) startNode(ctx context.Context, number int, m *machine.Machine, archives []string) error {
	for name, text := range map[string]string{
		"/etc/cni/net.d/10-box.conflist": fmt.Sprintf(network, podNetwork(number)),
		"/etc/containerd/config.toml":    fmt.Sprintf(containerdConfig, filepath.Join(b.built.toolkit, programs.Toolkit)),
		settings + "/kubelet.yaml":       fmt.Sprintf(kubeletConfig, address(number)),
		settings + "/kubelet.kubeconfig": kubeconfig(nodeToken(m.Name)),
	} {
		if err := m.WriteFile(name, text); err != nil {
			return fmt.Errorf("start %s: %w", m.Name, err)
		}
	}
	if err := m.Daemon(ctx, "containerd", b.built.containerd+"/containerd", "-c", "/etc/containerd/config.toml"); err != nil {
		return err
	}
	err := await.NoError(ctx, "start containerd", func(context.Context) error {
		if log := m.Log("containerd"); !strings.Contains(log, "containerd successfully booted") {
			return fmt.Errorf("it is not ready: %s", log)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if _, err := b.Ctr(ctx, m, "images", "import", archive); err != nil {
			return fmt.Errorf("import %s: %w", filepath.Base(archive), err)
		}
	}
	if err := m.Daemon(ctx, "kubelet", b.built.kubelet+"/kubelet", "--kubeconfig", settings+"/kubelet.kubeconfig", "--config", settings+"/kubelet.yaml",
		"--node-ip", address(number), "--hostname-override", m.Name, "--cert-dir", "/var/lib/kubelet/pki"); err != nil {
		return err
	}
	// The machine's settings for tracked connections are not a network namespace's to change.
	return m.Daemon(ctx, "kube-proxy", b.built.kubelet+"/kube-proxy", "--kubeconfig", AdminKubeconfig, "--hostname-override", m.Name,
		"--proxy-mode", "iptables", "--cluster-cidr", "10.244.0.0/16", "--conntrack-max-per-core", "0",
		"--conntrack-tcp-timeout-established", "0s", "--conntrack-tcp-timeout-close-wait", "0s")
}

// Ctr runs containerd's own client on a machine.
func (b *Box) Ctr(ctx context.Context, m *machine.Machine, args ...string) (string, error) {
	return m.Run(ctx, append([]string{b.built.containerd + "/ctr", "-n", "k8s.io"}, args...)...)
}
