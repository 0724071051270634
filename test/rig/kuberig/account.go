package kuberig

import (
	"context"
	"fmt"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddNamespaces creates namespaces.
func (c *Cluster) AddNamespaces(ctx context.Context, names ...string) error {
	for _, name := range names {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("add namespace: %w", err)
		}
	}
	return nil
}

// AddAccount creates a ServiceAccount.
func (c *Cluster) AddAccount(ctx context.Context, namespace, name string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Client().CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("add account: %w", err)
	}
	return nil
}

// Allow gives a ServiceAccount the rights of a ClusterRole.
func (c *Cluster) Allow(ctx context.Context, namespace, account, role string) error {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account + "." + role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
	if _, err := c.Client().RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("give rights: %w", err)
	}
	return nil
}

// Token returns a kubeconfig with a token of the ServiceAccount, bound to a pod
// on the node, or to nothing when node is empty.
func (c *Cluster) Token(ctx context.Context, namespace, account, node string) (string, error) {
	request := &authv1.TokenRequest{}
	if node != "" {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: account + "-" + node, Namespace: namespace},
			Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "main", Image: "none"}}}}
		made, err := c.Client().CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("make pod on node %s: %w", node, err)
		}
		request.Spec.BoundObjectRef = &authv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: made.Name, UID: made.UID}
	}
	token, err := c.Client().CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make token of %s: %w", account, err)
	}
	return c.kubeconfig(account+"-"+node, token.Status.Token)
}
