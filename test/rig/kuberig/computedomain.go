package kuberig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// ApplyDeviceClasses makes the DeviceClasses of channels and daemons as the
// driver's chart has them.
func (c *Cluster) ApplyDeviceClasses(ctx context.Context) error {
	_, classes, err := DriverObjects(ctx, c.Driver)
	if err != nil {
		return err
	}
	if err := c.Objects().ApplyText(ctx, classes); err != nil {
		return fmt.Errorf("apply DeviceClasses: %w", err)
	}
	return nil
}

// driverFolder returns the folder of a release of NVIDIA's DRA driver.
func driverFolder(ctx context.Context, release string) (string, error) {
	m, err := driverModule(release)
	if err != nil {
		return "", err
	}
	return m.Folder(ctx)
}

// DriverObjects returns the folder of the CRDs of a release of NVIDIA's DRA driver, and
// its DeviceClasses.
func DriverObjects(ctx context.Context, release string) (crds, classes string, err error) {
	dir, err := driverFolder(ctx, release)
	if err != nil {
		return "", "", err
	}
	for _, name := range []string{"deviceclass-compute-domain-daemon.yaml", "deviceclass-compute-domain-default-channel.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, chart, "templates", name))
		if err != nil {
			return "", "", fmt.Errorf("read DeviceClasses: %w", err)
		}
		classes += plainYAML(string(text))
	}
	return filepath.Join(dir, chart, "crds"), classes, nil
}

// plainYAML renders the templates of the chart's DeviceClasses, which ask nothing
// but whether to render and in which version of the API.
func plainYAML(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "{{"):
		case strings.HasPrefix(line, "apiVersion:"):
			out.WriteString("apiVersion: resource.k8s.io/v1\n")
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

// StartComputeDomainController starts the driver's controller, whose DaemonSets
// and cliques are in the namespace, which is made where it is not there. The
// controller reads its templates from /templates: it runs in a root folder that
// has nothing else, which takes root's rights. It gets more arguments where some are
// given.
func (c *Cluster) StartComputeDomainController(ctx context.Context, driverNamespace string, more ...string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driverNamespace}}
	if _, err := c.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the driver's namespace: %w", err)
	}
	root, err := c.driverRoot(ctx)
	if err != nil {
		return fmt.Errorf("make the driver's root folder: %w", err)
	}
	address := loopback.Address(9838)
	cmd := exec.Command("/"+driverController, append([]string{"--kubeconfig=/kubeconfig", "--namespace=" + driverNamespace, "--pod-name=rig", //nolint:noctx,gosec // ended by Stop
		"--image-name=rig/dra-driver:v0", "--log-verbosity-cd-daemon=0", "--http-endpoint=" + address}, more...)...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root}
	return c.startOther(ctx, driverController, cmd, "http://"+address+"/metrics")
}

const driverController = "compute-domain-controller"

// StopComputeDomainController ends the driver's controller. Another release of it may be
// started after that.
func (c *Cluster) StopComputeDomainController() {
	c.others[driverController].Stop()
	delete(c.others, driverController)
}

// driverRoot makes a root folder for the driver's controller.
func (c *Cluster) driverRoot(ctx context.Context) (string, error) {
	dir, err := driverFolder(ctx, c.Driver)
	if err != nil {
		return "", err
	}
	root, err := os.MkdirTemp(c.Dir, "driver-")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(root, os.DirFS(dir)); err != nil {
		return "", err
	}
	kubeconfig, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		return "", err
	}
	return root, os.WriteFile(filepath.Join(root, "kubeconfig"), kubeconfig, 0o600)
}
