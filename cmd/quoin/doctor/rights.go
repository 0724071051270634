package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// right is something that one of Quoin's accounts must be able to do, or must not.
type right struct {
	component, verb, group, resource string
	must                             bool
	err                              error // nobody knows
	is                               bool
}

// wantedRights are rights without which a part does not work, and some that a part must not have.
var wantedRights = []right{
	{component: componentAgent, verb: "create", group: "quoin.dev", resource: "nodereports", must: true},
	{component: componentAgent, verb: "patch", resource: "nodes"},
	{component: componentAgent, verb: "get", resource: "secrets"},
	{component: componentPublisher, verb: "list", group: "quoin.dev", resource: "nodereports", must: true},
	{component: componentPublisher, verb: "list", resource: "nodes", must: true},
	{component: componentPublisher, verb: "create", group: "quoin.dev", resource: "nodereports"},
	{component: componentPublisher, verb: "delete", resource: "nodes"},
	{component: componentPublisher, verb: "get", resource: "secrets"},
}

// accountOf is the account by which the pods of a workload reach the API server.
func accountOf(workload *unstructured.Unstructured) rest.ImpersonationConfig {
	all, namespace := "system:serviceaccounts", workload.GetNamespace()
	return rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + text(workload, "spec", "template", "spec", "serviceAccountName"),
		Groups: []string{all, all + ":" + namespace, "system:authenticated"}}
}

// askRights asks the API server what Quoin's accounts may do.
func (c *Cluster) askRights(ctx context.Context, client kubernetes.Interface) {
	for _, r := range wantedRights {
		workload := c.workload(r.component)
		if workload == nil {
			continue
		}
		account := accountOf(workload)
		review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{User: account.UserName, Groups: account.Groups,
			ResourceAttributes: &authorization.ResourceAttributes{Verb: r.verb, Group: r.group, Resource: r.resource}}}
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if r.err = err; err == nil {
			r.is = answer.Status.Allowed
		}
		c.Rights = append(c.Rights, r)
	}
}

// rights compares what Quoin's accounts may do with what they need.
func (c *Cluster) rights(f *findings) {
	var lack, more []string
	for _, r := range c.Rights {
		what := fmt.Sprintf("%s: %s %s", r.component, r.verb, r.resource)
		switch {
		case r.err != nil:
			f.unknown("permissions", toSee(r.err), "ask what the %s may do: %v", r.component, r.err)
			return
		case r.must && !r.is:
			lack = append(lack, what)
		case !r.must && r.is:
			more = append(more, what)
		}
	}
	slices.Sort(lack)
	if len(lack) > 0 {
		f.fatal("permissions", c.apply(), "rights are missing (%s)", strings.Join(lack, "; "))
	}
	if len(more) > 0 {
		f.warn("permissions", "see who gives them: "+c.Kubectl+" get clusterrolebindings -o wide | grep quoin", "accounts have rights that Quoin does not need (%s)", strings.Join(more, "; "))
	}
	if len(lack)+len(more) == 0 && len(c.Rights) > 0 {
		f.ok("permissions", "agents and publisher have the rights that they need, and none of those that they must not have")
	}
}
