package boxrig

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

const adminToken = "admin-token"

// settings is the folder of a machine's configuration files.
const settings = "/etc/kubernetes"

// AdminKubeconfig is where each machine has the administrator's.
const AdminKubeconfig = settings + "/admin.kubeconfig"

// corefile has the names of the cluster's services and no others.
const corefile = `.:53 {
  bind 10.250.0.1
  errors
  cache 2
  kubernetes cluster.local in-addr.arpa {
    kubeconfig ` + AdminKubeconfig + `
    pods insecure
    ttl 2
  }
}
`

// startPlane starts the control plane and the cluster's DNS on the first machine.
func (b *Box) startPlane(ctx context.Context) error {
	if err := b.writePlane(); err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	admin, key := AdminKubeconfig, filepath.Join(settings, "sa.key")
	const etcd, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	for _, d := range []struct {
		program string
		args    string
		ready   string // what the API server answers to then
	}{
		{b.built.etcd + "/etcd", "--data-dir /var/lib/etcd --unsafe-no-fsync --log-level error --listen-client-urls " + etcd + " --advertise-client-urls " + etcd +
			" --listen-peer-urls " + peer + " --initial-advertise-peer-urls " + peer + " --initial-cluster default=" + peer, ""},
		{b.built.kubernetes + "/kube-apiserver", "--etcd-servers " + etcd + " --secure-port 6443 --bind-address " + address(1) + " --advertise-address " + address(1) +
			" --cert-dir " + settings + "/pki --service-account-key-file " + key + " --service-account-signing-key-file " + key +
			" --service-account-issuer https://kubernetes.default.svc --token-auth-file " + settings + "/tokens.csv --authorization-mode Node,RBAC" +
			" --service-cluster-ip-range 10.0.0.0/24 --allow-privileged --enable-admission-plugins NodeRestriction --kubelet-preferred-address-types InternalIP", "/readyz"},
		// The API server's certificate is its own authority, and names the service's address.
		{b.built.kubernetes + "/kube-controller-manager", "--kubeconfig " + admin + " --leader-elect=false --bind-address 127.0.0.1 --cert-dir /var/lib/controller-manager" +
			" --service-account-private-key-file " + key + " --root-ca-file " + settings + "/pki/apiserver.crt", ""},
		{b.built.kubernetes + "/kube-scheduler", "--kubeconfig " + admin + " --leader-elect=false --bind-address 127.0.0.1 --cert-dir /var/lib/scheduler", ""},
		{b.built.coredns + "/coredns", "-conf " + settings + "/Corefile", ""},
	} {
		if err := b.Machines[0].Daemon(ctx, filepath.Base(d.program), append([]string{d.program}, strings.Fields(d.args)...)...); err != nil {
			return err
		}
		if d.ready == "" {
			continue
		}
		err := await.NoError(ctx, "start the API server", func(ctx context.Context) error {
			_, err := b.Client().Discovery().RESTClient().Get().AbsPath(d.ready).DoRaw(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, b.Machines[0].Log(filepath.Base(d.program)))
		}
	}
	return nil
}

// writePlane writes the control plane's files, and who has which token.
func (b *Box) writePlane() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	var tokens strings.Builder
	tokens.WriteString(adminToken + ",admin,admin,system:masters\n")
	for _, m := range b.Machines {
		fmt.Fprintf(&tokens, "%s,system:node:%s,%[2]s,system:nodes\n", nodeToken(m.Name), m.Name)
	}
	for name, text := range map[string]string{
		"sa.key":     string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		"tokens.csv": tokens.String(),
		"Corefile":   corefile,
	} {
		if err := b.Machines[0].WriteFile(filepath.Join(settings, name), text); err != nil {
			return err
		}
	}
	for _, m := range b.Machines {
		if err := m.WriteFile(AdminKubeconfig, kubeconfig(adminToken)); err != nil {
			return err
		}
	}
	return os.WriteFile(b.Kubeconfig(), []byte(kubeconfig(adminToken)), 0o600)
}

func nodeToken(node string) string { return node + "-token" }

func kubeconfig(token string) string {
	return kuberig.KubeconfigText("https://"+address(1)+":6443", token)
}
