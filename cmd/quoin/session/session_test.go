package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spf13/cobra"
)

// apiServer serves the ConfigMap of the configuration, or a status. It counts what it is asked.
type apiServer struct {
	*httptest.Server
	status int
	data   map[string]string
	asked  []string
}

func newAPIServer(t *testing.T, status int, data map[string]string) *apiServer {
	t.Helper()
	a := &apiServer{status: status, data: data}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked = append(a.asked, r.URL.Path)
		var answer any = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: a.data}
		if a.status != http.StatusOK {
			reason := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound}[a.status]
			answer = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Message: "said", Code: int32(a.status)}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_ = json.NewEncoder(w).Encode(answer) // the test sees what is missing
	}))
	t.Cleanup(a.Close)
	return a
}

// kubeconfig writes a kubeconfig with the context of a name.
func (a *apiServer) kubeconfig(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\ncontexts: [{name: %s, context: {cluster: a}}]\ncurrent-context: %s\n", a.URL, name, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// parsed are the flags of a command line. The machine has a configuration if there is a text.
func parsed(t *testing.T, machine string, args ...string) *Flags {
	t.Helper()
	f := &Flags{machineFile: filepath.Join(t.TempDir(), "quoin.yaml")}
	if machine != "" {
		if err := os.WriteFile(f.machineFile, []byte(machine), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := &cobra.Command{Use: "test"}
	f.Add(cmd)
	f.AddSources(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestClusterConfig opens clusters whose configuration is there, absent, forbidden and broken. It is
// read once.
func TestClusterConfig(t *testing.T) {
	t.Setenv("NAMESPACE", "")
	for _, tt := range []struct {
		name   string
		status int
		data   map[string]string
		args   []string
		want   string // what is said, or the error
		format string // of the publication
	}{
		{"there", 200, map[string]string{ConfigKey: "publicationDefaults: {format: conf}"}, nil, "opened cluster blue of FILE; configuration: ConfigMap quoin-system/quoin-config", "conf"},
		{"flags go before it", 200, map[string]string{ConfigKey: "publicationDefaults: {format: conf}"}, []string{"--set", "publicationDefaults.format=yaml"}, "opened cluster blue of FILE; configuration: ConfigMap quoin-system/quoin-config", "yaml"},
		{"in another namespace", 200, map[string]string{ConfigKey: ""}, []string{"--namespace", "mine"}, "opened cluster blue of FILE; configuration: ConfigMap mine/quoin-config", "yaml"},
		{"absent", 404, nil, nil, "opened cluster blue of FILE; configuration: defaults, because there is no ConfigMap quoin-system/quoin-config", "yaml"},
		{"forbidden", 403, nil, nil, "read configuration: ConfigMap quoin-system/quoin-config: said; give its text as a file by --config FILE", ""},
		{"an API server in trouble", 500, nil, nil, "read configuration: ConfigMap quoin-system/quoin-config: said", ""},
		{"without its key", 200, map[string]string{"other": ""}, nil, "read configuration: ConfigMap quoin-system/quoin-config: it has no key quoin.yaml: write the configuration there, or give it as a file by --config FILE", ""},
		{"broken", 200, map[string]string{ConfigKey: "agent: {x: y}"}, nil, `ConfigMap quoin-system/quoin-config:1: unknown key "x"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPIServer(t, tt.status, tt.data)
			file := a.kubeconfig(t, "blue")
			var said strings.Builder
			s, err := parsed(t, "publicationDefaults: {format: conf}", append(tt.args, "--kubeconfig", file)...).Open(t.Context(), &said)
			if len(a.asked) != 1 {
				t.Errorf("the API server was asked for %q, want once", a.asked)
			}
			if tt.format == "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("error %v, want %s", err, tt.want)
				}
				if unknown := (*ConfigError)(nil); !errors.As(err, &unknown) || unknown.Refused == strings.HasPrefix(tt.want, "read configuration") || said.Len() > 0 {
					t.Errorf("error of type %T, said %q", err, &said)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := "quoin: " + strings.Replace(tt.want, "FILE", file, 1) + "\n"; said.String() != want {
				t.Errorf("said %q, want %q", &said, want)
			}
			if pub, err := s.Publication(); err != nil || pub.FileFormat() != tt.format {
				t.Errorf("format %q, %v, want %s", pub.FileFormat(), err, tt.format)
			}
		})
	}
}

// TestAdvised holds that the commands that are advised reach the cluster as this machine does.
func TestAdvised(t *testing.T) {
	t.Setenv("NAMESPACE", "")
	a := newAPIServer(t, 200, map[string]string{ConfigKey: "publisher: {kubeconfig: /of/a/pod}"})
	file := a.kubeconfig(t, "blue")
	t.Setenv("KUBECONFIG", file)
	for _, tt := range []struct{ args, kubectl, again string }{
		{"", "kubectl", ""},
		{"--context blue", "kubectl --context blue", " --context blue"},
		{"--kubeconfig " + file, "kubectl --kubeconfig " + file, " --kubeconfig " + file},
		{"--set publisher.kubeconfig=" + file, "kubectl --kubeconfig " + file, " --set publisher.kubeconfig=" + file},
	} {
		s, err := parsed(t, "", strings.Fields(tt.args)...).Open(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if c := s.Commands(); c.Kubectl != tt.kubectl || c.Again != tt.again {
			t.Errorf("%q: %+v, want %q and %q", tt.args, c, tt.kubectl, tt.again)
		}
	}
}

// TestOrder holds which of several sources is opened.
func TestOrder(t *testing.T) {
	t.Setenv("NAMESPACE", "")
	flag, env := newAPIServer(t, 404, nil), newAPIServer(t, 404, nil)
	flagFile, envFile := flag.kubeconfig(t, "flag"), env.kubeconfig(t, "env")
	own := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const absent = "defaults, because there is no ConfigMap quoin-system/quoin-config"
	for _, tt := range []struct {
		name, env, machine string
		args               []string
		want               string
	}{
		{"a directory by its flag", envFile, "publisher: {logLevel: debug}", []string{"--store", dir}, "opened directory " + dir + "; configuration: MACHINE"},
		{"a file and KUBECONFIG", envFile, "publisher: {logLevel: debug}", []string{"--config", own}, "opened cluster env of " + envFile + "; configuration: " + own},
		{"a kubeconfig", envFile, "publisher: {store: " + dir + "}", []string{"--kubeconfig", flagFile}, "opened cluster flag of " + flagFile + "; configuration: " + absent},
		{"KUBECONFIG", envFile, "publisher: {store: " + dir + "}", nil, "opened cluster env of " + envFile + "; configuration: " + absent},
		{"KUBECONFIG of two files, and a context", envFile + ":" + flagFile, "", []string{"--context", "flag"}, "opened cluster flag of " + flagFile + "; configuration: " + absent},
		{"the machine's file", "", "publisher: {store: " + dir + "}", nil, "opened directory " + dir + "; configuration: MACHINE"},
		{"the machine's file names a kubeconfig", "", "publisher: {kubeconfig: " + flagFile + "}", nil, "opened cluster flag of " + flagFile + "; configuration: MACHINE"},
		{"a setting names a kubeconfig", envFile, "", []string{"--set", "publisher.kubeconfig=" + flagFile}, "opened cluster flag of " + flagFile + "; configuration: " + absent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.env)
			f := parsed(t, tt.machine, tt.args...)
			var said strings.Builder
			if _, err := f.Open(t.Context(), &said); err != nil {
				t.Fatal(err)
			}
			if want := "quoin: " + strings.Replace(tt.want, "MACHINE", f.machineFile, 1) + "\n"; said.String() != want {
				t.Errorf("said %q, want %q", &said, want)
			}
		})
	}
	f := parsed(t, "publisher: {logLevel: debug}")
	var said strings.Builder
	if s, err := f.OpenLocal(&said); err != nil || s.Config.Publisher.LogLevel != "debug" || said.String() != "quoin: configuration: "+f.machineFile+"\n" {
		t.Errorf("without a store: %v, %q", err, &said)
	}
}
