package kuberig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// etcdURL is where the API server reaches etcd.
func (c *Cluster) etcdURL() string { return "http://" + c.host + ":2379" }

func (c *Cluster) etcdFolder() string { return filepath.Join(c.home, "etcd") }

// inMemory runs a program ($3 and on) with a file system in memory at $1, which ends with the
// program. At first it holds the files of $2, if that is not empty.
const inMemory = `set -e; mount -t tmpfs etcd "$1"; if [ -n "$2" ]; then cp -a "$2/." "$1"; fi; shift 2; exec "$@"`

// startEtcd starts etcd with a copy of the data in a folder, or without data if the folder is "".
func (c *Cluster) startEtcd(ctx context.Context, data string) error {
	store, err := etcdModule.Folder(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.etcdFolder(), 0o700); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	client, peer := c.etcdURL(), "http://"+c.host+":2380"
	cmd := exec.Command("sh", "-c", inMemory, "sh", c.etcdFolder(), data, //nolint:noctx,gosec // ended by Stop
		filepath.Join(store, "etcd"), "--data-dir", c.etcdFolder(), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync", "--log-level", "error",
		"--quota-backend-bytes", "8589934592")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	c.etcd, err = c.start(cmd)
	return err
}

// stopEtcd ends etcd, and with it its data.
func (c *Cluster) stopEtcd() {
	if c.etcd != nil {
		_ = c.etcd.Process.Kill()
		_ = c.etcd.Wait()
		c.etcd = nil
	}
}

// Save keeps a copy of etcd's data in a new folder. The API server is stopped for that time.
func (c *Cluster) Save(ctx context.Context, to string) error {
	c.StopServer()
	if err := c.etcd.Process.Signal(syscall.SIGSTOP); err != nil { // its files do not change
		return fmt.Errorf("save etcd: %w", err)
	}
	if err := os.CopyFS(to, os.DirFS(fmt.Sprintf("/proc/%d/root%s", c.etcd.Process.Pid, c.etcdFolder()))); err != nil {
		return fmt.Errorf("save etcd: %w", err)
	}
	return c.Restore(ctx, to)
}

// Restore goes back to the data that Save has kept, as after a restore of etcd from a
// backup. All versions since then are forgotten.
func (c *Cluster) Restore(ctx context.Context, from string) error {
	c.StopServer()
	c.stopEtcd()
	if err := c.startEtcd(ctx, from); err != nil {
		return err
	}
	return c.StartServer(ctx)
}

// Compact forgets all old versions of all objects, and restarts the API server, which
// remembers some of them itself. A watch of an old version then has to begin again.
func (c *Cluster) Compact(ctx context.Context) error {
	c.StopServer()
	var now struct{ Header struct{ Revision string } }
	if err := c.askEtcd(ctx, "kv/range", map[string]any{"key": "AA=="}, &now); err != nil {
		return err
	}
	if err := c.askEtcd(ctx, "kv/compaction", map[string]any{"revision": now.Header.Revision, "physical": true}, &struct{}{}); err != nil {
		return err
	}
	return c.StartServer(ctx)
}

// askEtcd asks etcd by its JSON gateway.
func (c *Cluster) askEtcd(ctx context.Context, what string, body map[string]any, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL()+"/v3/"+what, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask etcd for %s: %s", what, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
