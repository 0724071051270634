package kuberig

import (
	"context"
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
	contents, err := c.etcd.contents(ctx)
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

// reusable is an API server that can be used by one test after another.
type reusable struct {
	*Cluster
	first state // before the first use
}

// empty puts etcd back to what was in it when the API server had started, and empties the
// audit log. It waits until the API server has taken notice.
func (c *reusable) empty(ctx context.Context) error {
	var left []string
	for range 10 {
		now, err := c.etcd.contents(ctx)
		if err != nil {
			return err
		}
		if left = c.changed(now); len(left) == 0 {
			if err := os.Truncate(filepath.Join(c.home, "audit.log"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("empty the audit log: %w", err)
			}
			return nil
		}
		if err := c.etcd.putBack(ctx, c.first.contents, left); err != nil {
			return err
		}
		if err := c.noticed(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("empty an API server: somebody writes %s again and again", strings.Join(left[:min(len(left), 5)], ", "))
}

// changed returns the keys that are new, or gone, or have another value than at first.
func (c *reusable) changed(now map[string]string) []string {
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

// noticed waits until the API server obeys a new admission policy and obeys it no longer when
// it is gone. The API server looks at policies once a second, and at everything else that was
// deleted before them as soon as it hears of it. It also waits until all types are gone that
// tests have made known.
func (c *reusable) noticed(ctx context.Context) error {
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
	if err := c.server.Ready(ctx, refused(true)); err != nil {
		return err
	}
	if err := api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := api.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.server.Ready(ctx, refused(false)); err != nil {
		return err
	}
	return c.server.Ready(ctx, func(context.Context) error {
		groups, err := c.served()
		if err == nil && !slices.Equal(groups, c.first.groups) {
			err = fmt.Errorf("the API server serves %v, want %v", groups, c.first.groups)
		}
		return err
	})
}
