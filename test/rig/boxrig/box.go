// Package boxrig runs a Kubernetes of several nodes on one machine for tests: real
// kubelets, containerds, kube-proxies and pods, in machines of namespaces. The control
// plane, the cluster's DNS and the first node share a machine, as on a small cluster.
package boxrig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/machine"
	"github.com/quoin-hpc/quoin/test/rig/process"
)

// Box is a cluster that runs.
type Box struct {
	Dir      string
	Machines []*machine.Machine // node1 and so on; the first has the control plane
	built    built
}

// Start starts a cluster of so many nodes in dir and waits until they are ready and have
// the images.
func Start(ctx context.Context, dir string, nodes int) (*Box, error) {
	built, err := buildPrograms(ctx)
	if err != nil {
		return nil, err
	}
	b := &Box{Dir: dir, built: built}
	if err := b.start(ctx, nodes); err != nil {
		b.Stop()
		return nil, fmt.Errorf("start the box: %w", err)
	}
	return b, nil
}

func (b *Box) start(ctx context.Context, nodes int) error {
	for n := range nodes {
		m, err := machine.Start(ctx, b.Dir, fmt.Sprintf("node%d", n+1), b.built.folders()...)
		if err != nil {
			return err
		}
		b.Machines = append(b.Machines, m)
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	if err := b.startPlane(ctx); err != nil {
		return err
	}
	archives, err := b.writeImages(ctx)
	if err != nil {
		return err
	}
	if err := b.startNodes(ctx, archives); err != nil {
		return err
	}
	return b.nodesReady(ctx)
}

// imageFolder is the machines' folder of image archives.
const imageFolder = "/var/tmp/images"

// writeImages gives each machine the image archives and returns their paths there. They
// end with the machines.
func (b *Box) writeImages(ctx context.Context) ([]string, error) {
	for _, m := range b.Machines {
		if err := os.Mkdir(m.Path(imageFolder), 0o755); err != nil {
			return nil, err
		}
	}
	written, err := images.Write(ctx, b.Machines[0].Path(imageFolder))
	if err != nil {
		return nil, err
	}
	var archives []string
	for _, path := range written {
		archive := filepath.Join(imageFolder, filepath.Base(path))
		archives = append(archives, archive)
		for _, m := range b.Machines[1:] {
			if err := os.Link(path, m.Path(archive)); err != nil {
				return nil, err
			}
		}
	}
	return archives, nil
}

// Stop ends everything.
func (b *Box) Stop() {
	for _, m := range b.Machines {
		m.Stop()
	}
}

// address is a node's, from 1 on.
func address(node int) string { return fmt.Sprintf("10.250.0.%d", node) }

// podNetwork is the network of a node's pods.
func podNetwork(node int) string { return fmt.Sprintf("10.244.%d.0/24", node) }

// connect lays a cable from each machine to a bridge in the first, and says to each where
// the others' pods are. Nothing leads out.
func (b *Box) connect(ctx context.Context) error {
	const bridge = "box0"
	first := b.Machines[0]
	run := func(m *machine.Machine, line string) error {
		_, err := m.Run(ctx, strings.Fields(line)...)
		return err
	}
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	err := errors.Join(run(first, "ip link add "+bridge+" type bridge"), run(first, "ip addr add "+address(1)+"/24 dev "+bridge),
		run(first, "ip link set "+bridge+" up"), run(first, "ip route add default dev "+bridge)) // kubelet and API server look for one
	for i, m := range b.Machines {
		fmt.Fprintln(&hosts, address(i+1), m.Name)
		if i == 0 {
			continue
		}
		err = errors.Join(err, m.Link(ctx, first, bridge), run(m, "ip addr add "+address(i+1)+"/24 dev eth0"), run(m, "ip link set eth0 up"),
			run(m, "ip route add default via "+address(1)))
	}
	for i, m := range b.Machines {
		for k := range b.Machines {
			if k != i {
				err = errors.Join(err, run(m, "ip route add "+podNetwork(k+1)+" via "+address(k+1)))
			}
		}
		err = errors.Join(err, m.WriteFile("etc/hosts", hosts.String()), m.WriteFile("etc/resolv.conf", "nameserver "+address(1)+"\n"))
	}
	return err
}

// Config reaches the API server as the administrator.
func (b *Box) Config() *rest.Config {
	return &rest.Config{Host: "https://" + address(1) + ":6443", BearerToken: adminToken, Dial: b.Machines[0].Dial,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 500, Burst: 1000}
}

// Client is a client of the administrator's.
func (b *Box) Client() kubernetes.Interface {
	client, err := kubernetes.NewForConfig(b.Config())
	if err != nil {
		panic("boxrig: " + err.Error()) // the configuration is constant
	}
	return client
}

// Kubectl runs kubectl as the administrator and returns its output.
func (b *Box) Kubectl(ctx context.Context, args ...string) (string, error) {
	return b.kubectl(ctx, "", args)
}

// Apply applies objects, as server-side apply does.
func (b *Box) Apply(ctx context.Context, objects string) error {
	_, err := b.kubectl(ctx, objects, []string{"apply", "--server-side", "--force-conflicts", "-f", "-"})
	return err
}

// Try asks the API server whether it would take objects.
func (b *Box) Try(ctx context.Context, objects string) error {
	_, err := b.kubectl(ctx, objects, []string{"apply", "--server-side", "--dry-run=server", "-f", "-"})
	return err
}

// Command is kubectl as the administrator, not started.
func (b *Box) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := b.Machines[0].Network(ctx, append([]string{filepath.Join(b.built.kubernetes, "kubectl")}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig(), "HOME="+b.Dir)
	return cmd
}

func (b *Box) kubectl(ctx context.Context, input string, args []string) (string, error) {
	cmd := b.Command(ctx, args...)
	cmd.Stdin = strings.NewReader(input)
	return process.Output(cmd)
}

// Helm runs Helm as the administrator and returns its output.
func (b *Box) Helm(ctx context.Context, args ...string) (string, error) {
	return process.Output(b.Shell(ctx, `exec helm "$@"`, args...))
}

// Shell is a script of the administrator's, not started. It has kubectl and helm in its path.
func (b *Box) Shell(ctx context.Context, script string, args ...string) *exec.Cmd {
	cmd := b.Machines[0].Network(ctx, append([]string{"bash", "-euo", "pipefail", "-c", script, "bash"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig(), "HOME="+b.Dir, "PATH="+b.built.kubernetes+":"+b.built.helm+":"+os.Getenv("PATH"))
	return cmd
}

// Kubeconfig is the administrator's, for programs on the network of the first machine.
func (b *Box) Kubeconfig() string { return filepath.Join(b.Dir, "admin.kubeconfig") }

// StartKwok starts kwok on the first machine. It plays the kubelets of nodes that no machine
// stands for: their pods run at once, with nothing in them.
func (b *Box) StartKwok(ctx context.Context) error {
	args := []string{b.built.kwok + "/kwok", "--kubeconfig", AdminKubeconfig, "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--cidr", podNetwork(100), "--server-address", "127.0.0.1:10247"}
	for _, stages := range kwokStages {
		files, err := filepath.Glob(filepath.Join(b.built.kwok, stages, "[np]o*-*.yaml"))
		if err != nil {
			return err
		}
		for _, file := range files {
			args = append(args, "--config", file)
		}
	}
	return b.Machines[0].Daemon(ctx, "kwok", args...)
}

// startNodes starts the nodes side by side.
func (b *Box) startNodes(ctx context.Context, archives []string) error {
	errs := make([]error, len(b.Machines))
	var wg sync.WaitGroup
	for i, m := range b.Machines {
		wg.Go(func() { errs[i] = b.startNode(ctx, i+1, m, archives) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// nodesReady waits until all nodes are.
func (b *Box) nodesReady(ctx context.Context) error {
	return await.NoError(ctx, "nodes ready", func(ctx context.Context) error {
		nodes, err := b.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for _, n := range nodes.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready < len(b.Machines) {
			return fmt.Errorf("%d of %d nodes are ready: %s", ready, len(b.Machines), b.Machines[len(b.Machines)-1].Log("kubelet"))
		}
		return nil
	})
}
