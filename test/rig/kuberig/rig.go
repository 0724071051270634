package kuberig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/process"
)

// Cluster is a running API server with its etcd, and what else was started for it.
type Cluster struct {
	Dir    string // of the test's own files
	Driver string // the release of NVIDIA's DRA driver, empty for the default
	home   string // of the API server's files
	bin    string
	host   string // a loopback address of its own, so that ports are free
	etcd   etcd
	server *process.Process
	others map[string]*process.Process // by name
	args   []string
	gates  []string      // feature gates of all programs
	loan   *net.UnixConn // until it is closed the API server is lent to this process, or nil

	kinds *kinds
}

const adminToken = "admin-token"

// Start starts etcd and kube-apiserver in dir and waits until they are ready.
func Start(ctx context.Context, dir string) (*Cluster, error) { return startCluster(ctx, dir, false) }

// podGroups turns on PodGroups, which are a beta of Kubernetes 1.37, and their topology constraints,
// which are an alpha. Both are off by default.
var podGroups = []string{"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"}

// newCluster returns a cluster that does not run yet. The test's files are in dir, and the API server's
// files are in home.
func newCluster(dir, home, host, bin string) *Cluster {
	c := &Cluster{Dir: dir, home: home, host: host, bin: bin, etcd: etcd{host: host, home: home}, others: map[string]*process.Process{}}
	c.kinds = &kinds{api: c.Client().Discovery()}
	return c
}

func startCluster(ctx context.Context, dir string, withPodGroups bool) (*Cluster, error) {
	bin, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	c := newCluster(dir, dir, loopback.Host(), bin)
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	if err := c.etcd.start(ctx, ""); err != nil {
		return nil, err
	}
	key := filepath.Join(dir, "sa.key")
	c.args = []string{
		"--etcd-servers", c.etcd.url(), "--secure-port", "6443", "--bind-address", c.host,
		"--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"),
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--service-account-issuer", "https://kubernetes.default.svc",
		"--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "Node,RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
		"--allow-privileged", "--audit-policy-file", filepath.Join(dir, "audit.yaml"), "--audit-log-path", filepath.Join(dir, "audit.log"),
		"--audit-log-maxsize", "100000", "--disable-admission-plugins", "ServiceAccount", "--v", "0",
	}
	if withPodGroups {
		c.gates = podGroups
		c.args = append(c.args, "--runtime-config=scheduling.k8s.io/v1beta1=true")
	}
	c.args = append(c.args, c.gates...)
	if err := c.StartServer(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// auditPolicy logs who wrote what, and what service accounts read, without the
// contents.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  userGroups: ["system:serviceaccounts"]
  verbs: [get, list, watch]
- level: None
`

// writeFiles writes what the API server reads. Its keys are of elliptic curves: each handshake
// of a client with an RSA key costs a hundred times more.
func (c *Cluster) writeFiles() error {
	sign, signPEM, err := newKey()
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	_, accounts, err := newKey()
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotAfter: time.Now().AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.ParseIP(c.host)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, sign.Public(), sign)
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	for name, text := range map[string]string{
		"tls.crt":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		"tls.key":    signPEM,
		"sa.key":     accounts,
		"tokens.csv": adminToken + ",admin,admin,system:masters\n",
		"audit.yaml": auditPolicy,
	} {
		if err := os.WriteFile(filepath.Join(c.home, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write files of the API server: %w", err)
		}
	}
	_, err = c.kubeconfig("admin", adminToken)
	return err
}

// newKey makes a private key, and its file.
func newKey() (*ecdsa.PrivateKey, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), err
}

// kubeconfig writes one for a token.
func (c *Cluster) kubeconfig(name, token string) (string, error) {
	path := filepath.Join(c.Dir, name+".kubeconfig")
	if err := os.WriteFile(path, []byte(KubeconfigText(c.url(), token)), 0o600); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

// KubeconfigText is the text of a kubeconfig. Whatever certificate the server has is right.
func KubeconfigText(server, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: rig, cluster: {server: "%s", insecure-skip-tls-verify: true}}]
users: [{name: user, user: {token: "%s"}}]
contexts: [{name: rig, context: {cluster: rig, user: user}}]
current-context: rig
`, server, token)
}

// url is the API server's.
func (c *Cluster) url() string { return "https://" + c.host + ":6443" }

// Kubeconfig is the administrator's.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "admin.kubeconfig") }

// start starts a program whose log is in a folder. Its garbage is collected later than by
// default, which takes a third off the processor time of an API server's start.
func start(cmd *exec.Cmd, dir string) (*process.Process, error) {
	cmd.Env = append(cmd.Environ(), "GOGC=800", "GOMEMLIMIT=600MiB")
	return process.Start(cmd, filepath.Join(dir, filepath.Base(cmd.Path)+".log"))
}

// startTries is how often an API server is started: on a very busy machine it gives
// up when its own first requests take longer than it wants.
const startTries = 5

// StartServer starts the API server, again after StopServer, and waits until it
// is ready.
func (c *Cluster) StartServer(ctx context.Context) error {
	var err error
	for range startTries {
		if err = c.startServer(ctx); !errors.Is(err, process.ErrEnded) {
			return err
		}
		c.StopServer()
	}
	return err
}

func (c *Cluster) startServer(ctx context.Context) (err error) {
	server := exec.Command(filepath.Join(c.bin, "kube-apiserver"), c.args...) //nolint:noctx // ended by StopServer
	if c.server, err = start(server, c.Dir); err != nil {
		return err
	}
	return c.server.Ready(ctx, func(ctx context.Context) error {
		_, err := c.Client().Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// StopServer ends the API server; etcd stays.
func (c *Cluster) StopServer() {
	if c.loan != nil {
		panic("kuberig: this API server is lent: a test that stops it needs StartOwnTest")
	}
	if c.server != nil {
		c.server.Stop()
	}
}

// Stop ends everything, and gives back an API server that was lent.
func (c *Cluster) Stop() {
	for _, p := range c.others {
		p.Stop()
	}
	if c.loan != nil {
		_ = c.loan.CloseWrite()
		_, _ = io.Copy(io.Discard, c.loan) // until the lender has taken notice
		_ = c.loan.Close()
		return
	}
	c.StopServer()
	c.etcd.stop()
}

// Save keeps a copy of etcd's data in a new folder. The API server is stopped for that time.
func (c *Cluster) Save(ctx context.Context, to string) error {
	c.StopServer()
	if err := c.etcd.save(to); err != nil {
		return err
	}
	return c.Restore(ctx, to)
}

// Restore goes back to the data that Save has kept, as after a restore of etcd from a
// backup. All versions since then are forgotten.
func (c *Cluster) Restore(ctx context.Context, from string) error {
	c.StopServer()
	c.etcd.stop()
	if err := c.etcd.start(ctx, from); err != nil {
		return err
	}
	return c.StartServer(ctx)
}

// Compact forgets all old versions of all objects, and restarts the API server, which
// remembers some of them itself. A watch of an old version then has to begin again.
func (c *Cluster) Compact(ctx context.Context) error {
	c.StopServer()
	if err := c.etcd.compact(ctx); err != nil {
		return err
	}
	return c.StartServer(ctx)
}

// transport is that of all clients. client-go's own gives up if a busy machine takes 10
// seconds for a TLS handshake.
var transport = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: await.Limit, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // on this machine

// Config reaches the API server as the administrator.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{Host: c.url(), BearerToken: adminToken, Transport: transport, QPS: 500, Burst: 1000}
}

// Client is a client of the administrator's.
func (c *Cluster) Client() kubernetes.Interface {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		panic("kuberig: " + err.Error()) // the configuration is constant
	}
	return client
}

// Programs is the folder of kubectl.
func (c *Cluster) Programs() string { return c.bin }

// Kubectl runs kubectl, by default as the administrator, for a test of what kubectl does or
// prints. Objects costs much less. It runs it again if a busy machine took too long for a TLS
// handshake, after which the server has seen no request.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	for end := time.Now().Add(await.Limit); ; {
		out, err := c.kubectl(ctx, args...)
		if err == nil || !strings.Contains(out, "TLS handshake timeout") || time.Now().After(end) {
			return out, err
		}
	}
}

func (c *Cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "HOME="+c.Dir, "GOGC=off") // it ends before garbage matters
	return process.Output(cmd)
}
