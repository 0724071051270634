package kuberig

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/quoin-hpc/quoin/test/rig/process"
)

// etcd has the objects of an API server, in memory.
type etcd struct {
	host    string // its loopback address
	home    string // of its log, and of the folder that its data are mounted on
	process *process.Process
}

// url is where the API server reaches etcd.
func (e *etcd) url() string { return "http://" + e.host + ":2379" }

func (e *etcd) folder() string { return filepath.Join(e.home, "etcd") }

// inMemory runs a program ($3 and on) with a file system in memory at $1, which ends with the
// program. At first it holds the files of $2, if that is not empty.
const inMemory = `set -e; mount -t tmpfs etcd "$1"; if [ -n "$2" ]; then cp -a "$2/." "$1"; fi; shift 2; exec "$@"`

// start starts etcd with a copy of the data in a folder, or without data if the folder is "".
func (e *etcd) start(ctx context.Context, data string) error {
	store, err := etcdModule.Folder(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.folder(), 0o700); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	client, peer := e.url(), "http://"+e.host+":2380"
	cmd := exec.Command("sh", "-c", inMemory, "sh", e.folder(), data, //nolint:noctx,gosec // ended by stop
		filepath.Join(store, "etcd"), "--data-dir", e.folder(), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync", "--log-level", "error",
		"--quota-backend-bytes", "8589934592")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	e.process, err = start(cmd, e.home)
	return err
}

// stop ends etcd, and with it its data.
func (e *etcd) stop() {
	if e.process != nil {
		e.process.Stop()
	}
}

// save keeps a copy of the data in a new folder. etcd does nothing after that.
func (e *etcd) save(to string) error {
	if err := e.process.Signal(syscall.SIGSTOP); err != nil { // its files do not change
		return fmt.Errorf("save etcd: %w", err)
	}
	if err := os.CopyFS(to, os.DirFS(fmt.Sprintf("/proc/%d/root%s", e.process.PID(), e.folder()))); err != nil {
		return fmt.Errorf("save etcd: %w", err)
	}
	return nil
}

// compact forgets all old versions of all objects.
func (e *etcd) compact(ctx context.Context) error {
	var now struct{ Header struct{ Revision string } }
	if err := e.ask(ctx, "kv/range", map[string]any{"key": "AA=="}, &now); err != nil {
		return err
	}
	return e.ask(ctx, "kv/compaction", map[string]any{"revision": now.Header.Revision, "physical": true}, &struct{}{})
}

// contents returns the values of etcd by their keys, in base64 as etcd's gateway has them.
func (e *etcd) contents(ctx context.Context) (map[string]string, error) {
	var all struct{ KVs []struct{ Key, Value string } }
	if err := e.ask(ctx, "kv/range", map[string]any{"key": inBase64("/"), "range_end": inBase64("0")}, &all); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, kv := range all.KVs {
		key, err := base64.StdEncoding.DecodeString(kv.Key)
		if err != nil {
			return nil, fmt.Errorf("read etcd: %w", err)
		}
		if !slices.ContainsFunc(ownKeys, func(prefix string) bool { return strings.HasPrefix(string(key), prefix) }) {
			out[string(key)] = kv.Value
		}
	}
	return out, nil
}

// ownKeys are prefixes of keys that the API server writes for itself, again and again.
var ownKeys = []string{"/registry/masterleases/", "/registry/leases/kube-system/apiserver-", "/registry/peerserverleases/", "/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes"}

// putBack gives keys the values that they had at first, and deletes new keys.
func (e *etcd) putBack(ctx context.Context, first map[string]string, keys []string) error {
	var ops []any
	for _, key := range keys {
		if value, ok := first[key]; ok {
			ops = append(ops, map[string]any{"request_put": map[string]any{"key": inBase64(key), "value": value}})
		} else {
			ops = append(ops, map[string]any{"request_delete_range": map[string]any{"key": inBase64(key)}})
		}
	}
	for part := range slices.Chunk(ops, 100) { // etcd takes 128 at once
		if err := e.ask(ctx, "kv/txn", map[string]any{"success": part}, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

func inBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// ask asks etcd by its JSON gateway.
func (e *etcd) ask(ctx context.Context, what string, body map[string]any, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url()+"/v3/"+what, bytes.NewReader(text))
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
