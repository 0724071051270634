package kuberig

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// state is what an API server has when nobody has used it yet.
type state struct {
	contents map[string]string // of etcd
	groups   []string          // of the API
}

// state returns what the API server has now.
func (c *Cluster) state(ctx context.Context) (state, error) {
	contents, err := c.contents(ctx)
	if err != nil {
		return state{}, err
	}
	groups, err := c.served()
	return state{contents, groups}, err
}

// served returns the API groups that are served.
func (c *Cluster) served() ([]string, error) {
	groups, err := c.Client().Discovery().ServerGroups()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range groups.Groups {
		out = append(out, g.Name)
	}
	slices.Sort(out)
	return out, nil
}

// contents returns the values of etcd by their keys, in base64 as etcd's gateway has them.
func (c *Cluster) contents(ctx context.Context) (map[string]string, error) {
	var all struct{ KVs []struct{ Key, Value string } }
	if err := c.askEtcd(ctx, "kv/range", map[string]any{"key": inBase64("/"), "range_end": inBase64("0")}, &all); err != nil {
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

func inBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// empty puts etcd back to what was in it when the API server had started, and empties the
// audit log. It waits until the API server has taken notice.
func (c *Cluster) empty(ctx context.Context) error {
	var left []string
	for range 10 {
		now, err := c.contents(ctx)
		if err != nil {
			return err
		}
		if left = c.changed(now); len(left) == 0 {
			if err := os.Truncate(filepath.Join(c.home, "audit.log"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("empty the audit log: %w", err)
			}
			return nil
		}
		if err := c.putBack(ctx, left); err != nil {
			return err
		}
		if err := c.noticed(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("empty an API server: somebody writes %s again and again", strings.Join(left[:min(len(left), 5)], ", "))
}

// changed returns the keys that are new, or gone, or have another value than at first.
func (c *Cluster) changed(now map[string]string) []string {
	var out []string
	for key, value := range now {
		if first, ok := c.first.contents[key]; !ok || first != value {
			out = append(out, key)
		}
	}
	for key := range c.first.contents {
		if _, ok := now[key]; !ok {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// putBack writes keys as they were at first, and deletes those that are new.
func (c *Cluster) putBack(ctx context.Context, keys []string) error {
	var ops []any
	for _, key := range keys {
		if value, ok := c.first.contents[key]; ok {
			ops = append(ops, map[string]any{"request_put": map[string]any{"key": inBase64(key), "value": value}})
		} else {
			ops = append(ops, map[string]any{"request_delete_range": map[string]any{"key": inBase64(key)}})
		}
	}
	for part := range slices.Chunk(ops, 100) { // etcd takes 128 at once
		if err := c.askEtcd(ctx, "kv/txn", map[string]any{"success": part}, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// noticed waits until the API server obeys a new admission policy and obeys it no longer when
// it is gone. The API server looks at policies once a second, and at everything else that was
// deleted before them as soon as it hears of it. It also waits until all types are gone that
// tests have made known.
func (c *Cluster) noticed(ctx context.Context) error {
	const name = "rig-emptied"
	api := c.Client().AdmissionregistrationV1()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			ResourceNames: []string{name}, RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
		}}},
		Validations: []admissionv1.Validation{{Expression: "false"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	if _, err := api.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	refused := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
			_, err := c.Client().CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil && !apierrors.IsInvalid(err) {
				return err
			}
			if (err != nil) != want {
				return fmt.Errorf("a policy is obeyed: %t, want %t", err != nil, want)
			}
			return nil
		}
	}
	if err := c.ready(ctx, "kube-apiserver", refused(true)); err != nil {
		return err
	}
	if err := api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := api.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.ready(ctx, "kube-apiserver", refused(false)); err != nil {
		return err
	}
	return c.ready(ctx, "kube-apiserver", func(context.Context) error {
		groups, err := c.served()
		if err == nil && !slices.Equal(groups, c.first.groups) {
			err = fmt.Errorf("the API server serves %v, want %v", groups, c.first.groups)
		}
		return err
	})
}
