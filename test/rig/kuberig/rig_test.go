package kuberig

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rights gives the account sa the right to read and to create ConfigMaps.
const rights = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sa, namespace: default}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sa, namespace: default}
subjects: [{kind: ServiceAccount, namespace: default, name: sa}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sa}
`

// TestRealCluster holds what the tests of other packages stand on: writes of
// service accounts are counted, the administrator's are not, and the API server
// comes back with its data at the same address.
func TestRealCluster(t *testing.T) {
	t.Parallel()
	c := StartOwnTest(t)
	if err := errors.Join(c.AddAccount(t.Context(), "default", "sa"), c.Objects().ApplyText(t.Context(), rights)); err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(t.Context(), "default", "sa", "node-a")
	if err != nil {
		t.Fatal(err)
	}
	none, start, err := c.Writes(0)
	if err != nil || len(none) != 0 {
		t.Fatalf("before any write of a service account: %v, %v", none, err)
	}
	account, err := c.ObjectsOf(token)
	if err == nil {
		err = account.Create(t.Context(), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\n")
	}
	if err == nil {
		_, err = account.Get(t.Context(), "configmaps", "default", "made")
	}
	if err != nil {
		t.Fatal(err)
	}
	writes, end, err := c.Writes(start)
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{{"system:serviceaccount:default:sa", "create", "configmaps", "default", "made"}}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	read := Request{"system:serviceaccount:default:sa", "get", "configmaps", "default", "made"}
	if all, _, err := c.Requests(start); err != nil || !slices.Contains(all, want[0]) || !slices.Contains(all, read) {
		t.Errorf("requests %v, %v: want the write and the reading of it", all, err)
	}
	if again, _, err := c.Writes(end); err != nil || len(again) != 0 {
		t.Errorf("after the last write: %v, %v", again, err)
	}

	c.StopServer()
	if _, err := c.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "made", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a stopped API server: %v, want connection refused", err)
	}
	if err := c.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "--kubeconfig", token, "get", "configmap", "made", "-n", "default"); err != nil {
		t.Error(err)
	}
}

func TestWritesLeavesUnfinishedLine(t *testing.T) {
	const line = `{"verb":"patch","user":{"username":"system:serviceaccount:a:b"},"objectRef":{"resource":"nodes","name":"n"}}` + "\n"
	c := &Cluster{home: t.TempDir()}
	path := filepath.Join(c.home, "audit.log")
	if err := os.WriteFile(path, []byte(line+line[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	first, offset, err := c.Writes(0)
	if err != nil || len(first) != 1 || offset != int64(len(line)) {
		t.Fatalf("with a line and a part of one: %v, offset %d, %v", first, offset, err)
	}
	if err := os.WriteFile(path, []byte(line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	if rest, _, err := c.Writes(offset); err != nil || len(rest) != 1 {
		t.Errorf("with the rest of it: %v, %v", rest, err)
	}
}

func TestParseRequest(t *testing.T) {
	line := func(stage, verb, query string) string {
		return `{"stage":"` + stage + `","verb":"` + verb + `","requestURI":"/api/v1/nodes?` + query + `","user":{"username":"u"},"objectRef":{"resource":"nodes","name":"n","subresource":"status"}}`
	}
	for _, tt := range []struct{ name, line, verb string }{
		{"a write", line("ResponseComplete", "patch", ""), "patch"},
		{"a list", line("ResponseComplete", "list", "limit=500"), "list"},
		{"a watch", line("ResponseStarted", "watch", "watch=true"), "watch"},
		{"its end", line("ResponseComplete", "watch", "watch=true"), ""},
		{"a list by a watch", line("ResponseStarted", "watch", "sendInitialEvents=true&watch=true"), "list"},
	} {
		r, logged, err := parseRequest([]byte(tt.line))
		if want := (Request{"u", tt.verb, "nodes/status", "", "n"}); err != nil || logged != (tt.verb != "") || logged && r != want {
			t.Errorf("%s: %+v, %t, %v, want %+v", tt.name, r, logged, err, want)
		}
	}
}
