package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/testdata/rig/imexrig"
	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
)

// TestIMEXDeleteBadInput is what an admin gets wrong before the API server is asked.
func TestIMEXDeleteBadInput(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	nowhere := write(t, "k", "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no kubeconfig", nil, "no kubeconfig: give --kubeconfig FILE, or set $KUBECONFIG"},
		{"a missing kubeconfig", []string{"--kubeconfig", "/missing"}, "read kubeconfig: stat /missing: no such file"},
		{"a kubeconfig that is none", []string{"--kubeconfig", write(t, "bad", "x: [")}, "read kubeconfig: error loading config file"},
		{"a missing configuration", []string{"--config", "/missing"}, "/missing: no such file"},
		{"a bad configuration", []string{"--config", write(t, "q.yaml", "imex: {join: all}\n")}, `q.yaml:1: imex.join: "all": want holder, slurmd or none`},
		{"an unknown flag", []string{"--force"}, "unknown flag: --force; see quoin imex delete --help"},
		{"an argument", []string{"quoin"}, "see quoin imex delete --help"},
		{"no API server", []string{"--kubeconfig", nowhere}, "delete ComputeDomain quoin-system/quoin: Get"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := quoin(t, "", append([]string{"imex", "delete"}, tt.args...)...)
			if code != 2 || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("exit %d, said:\n%s%s\nwant 2 and %q", code, out, errs, tt.want)
			}
		})
	}
	if code, _, errs := quoin(t, "", "imex", "dlete"); code != 2 || !strings.Contains(errs, `unknown command "dlete"`) {
		t.Errorf("a command that there is not: exit %d, said %s", code, errs)
	}
}

// imexDelete is a cluster in which the pods of the manifests' DaemonSet hold the
// channels of six nodes.
type imexDelete struct {
	cluster *kuberig.Cluster
	fleet   *imexrig.Fleet
}

// TestRealIMEXDelete deletes the domain of a fleet: not as long as its holders live.
func TestRealIMEXDelete(t *testing.T) {
	t.Parallel()
	c, f := imexrig.StartTest(t, imexrig.Options{DriverNamespace: "driver", Nodes: imexrig.Racks(2, 3)})
	d := imexDelete{c, f}
	d.says(t, 0, "", "delete ComputeDomain quoin-system/quoin: nothing to delete: there is none of that name")
	d.kubectl(t, "apply", "-f", "../../manifests")
	uid := d.join(t)

	pods := d.names(t)
	d.says(t, 1, "--dry-run", "refused: delete ComputeDomain quoin-system/quoin: in use")
	d.says(t, 1, "", "refused: delete ComputeDomain quoin-system/quoin: in use: claims of it are reserved for pods quoin-system/"+pods[0]+", ", " and 1 more\n", "by\n  deleting the DaemonSet")
	d.untouched(t, uid)

	d.kubectl(t, "delete", "daemonset", "quoin-imex", "-n", "quoin-system")
	imexrig.Eventually(t, "without holders", func() bool { return len(d.names(t)) == 0 })
	d.kubectl(t, "wait", "--for=delete", "resourceclaims", "--all", "-n", "quoin-system", "--timeout=60s")
	d.refuses(t, "quoin-agent", "cannot get resource")
	d.refuses(t, "quoin-publisher", "cannot delete resource")
	d.says(t, 0, "--dry-run", "ComputeDomain quoin-system/quoin (uid "+uid+"): would be deleted", "makes it anew")
	if got := d.uid(t); got != uid {
		t.Errorf("after a dry run the domain is %q", got)
	}
	d.says(t, 0, "", "ComputeDomain quoin-system/quoin (uid "+uid+"): deleted\n", "set imex.join to none")
	imexrig.Eventually(t, "gone", func() bool { return d.uid(t) == "" })
}

// TestRealIMEXDeleteNothing asks an API server that does not know ComputeDomains.
func TestRealIMEXDeleteNothing(t *testing.T) {
	t.Parallel()
	d := imexDelete{cluster: kuberig.StartTest(t)}
	d.says(t, 0, "", "nothing to delete: the API server does not know ComputeDomains")
}

func (d imexDelete) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.cluster.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// says runs the command with one more flag, if there is one.
func (d imexDelete) says(t *testing.T, want int, flag string, words ...string) {
	t.Helper()
	args := []string{"imex", "delete", "--kubeconfig", d.cluster.Kubeconfig()}
	if flag != "" {
		args = append(args, flag)
	}
	code, out, errs := quoin(t, "", args...)
	if code != want {
		t.Errorf("exit %d, want %d; said:\n%s%s", code, want, out, errs)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("does not say %q:\n%s%s", w, out, errs)
		}
	}
}

// refuses runs the command with the token of an account that lacks a right.
func (d imexDelete) refuses(t *testing.T, account, why string) {
	t.Helper()
	token, err := d.cluster.Token(t.Context(), "quoin-system", account, "")
	if err != nil {
		t.Fatal(err)
	}
	code, _, errs := quoin(t, "", "imex", "delete", "--kubeconfig", token)
	if code != 2 || !strings.Contains(errs, why) || !strings.Contains(errs, "nothing was deleted: it needs to get and delete") {
		t.Errorf("with the token of %s: exit %d, said %s", account, code, errs)
	}
}

// join has a publisher make the domain, waits until all nodes are in it, and ends
// the publisher.
func (d imexDelete) join(t *testing.T) (uid string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		var out bytes.Buffer
		run(ctx, []string{"publisher", "--kubeconfig", d.cluster.Kubeconfig(), "--set", "publisher.leaderElect=false", "--listen", ""}, nil, &out, &out)
		ended <- out.String()
	}()
	imexrig.Eventually(t, "a domain", func() bool { return d.uid(t) != "" })
	uid = d.uid(t)
	d.untouched(t, uid)
	cancel()
	if said := <-ended; !strings.Contains(said, "ComputeDomain created") {
		t.Errorf("the publisher's log: %s", said)
	}
	return uid
}

// untouched waits until every node has a daemon that is ready in the domain.
func (d imexDelete) untouched(t *testing.T, uid string) {
	t.Helper()
	imexrig.Eventually(t, "all ready", func() bool {
		ready := 0
		for rack := range 2 {
			for _, e := range d.fleet.Entries(types.UID(uid), imexrig.RackClique(rack)) {
				if e.Status == "Ready" {
					ready++
				}
			}
		}
		return ready == 6 && d.uid(t) == uid
	})
}

// uid is the domain's, empty where there is none; one that is being deleted has
// another.
func (d imexDelete) uid(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(d.kubectl(t, "get", "computedomain", "quoin", "-n", "quoin-system", "--ignore-not-found", "-o", "jsonpath={.metadata.uid} {.metadata.deletionTimestamp}"))
}

// names are those of the holders' pods.
func (d imexDelete) names(t *testing.T) (names []string) {
	t.Helper()
	pods, err := d.cluster.Client().CoreV1().Pods("quoin-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if strings.HasPrefix(pods.Items[i].Name, "quoin-imex-") {
			names = append(names, pods.Items[i].Name)
		}
	}
	return names
}
