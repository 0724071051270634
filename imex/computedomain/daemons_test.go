package computedomain

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
)

// daemonSet and deployment are as the driver makes them.
func daemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "driver", Name: "computedomain-daemon-u1", Labels: map[string]string{imex.DomainLabel: "u1"}},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "d:v1",
			Env: []corev1.EnvVar{{Name: "MAX_NODES_PER_IMEX_DOMAIN", Value: "18"}, {Name: "FEATURE_GATES", Value: "A=true,B=false,"}}}}}}}}
}

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "driver", Name: "controller"},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Image: "sidecar"},
			{Image: "d:v1", Command: []string{"compute-domain-controller", "-v", "4"}, Env: []corev1.EnvVar{{Name: "IMAGE_NAME", Value: "d:v1"}, {Name: "FEATURE_GATES", Value: "A=true,"}}}}}}}}
}

func TestOutdated(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*appsv1.DaemonSet, *appsv1.Deployment)
		want  string // of the message, empty for no note
	}{
		{"as the controller would make it", func(*appsv1.DaemonSet, *appsv1.Deployment) {}, ""},
		{"another image", func(_ *appsv1.DaemonSet, d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[1].Env[0].Value = "d:v2"
		}, "DaemonSet driver/computedomain-daemon-u1, which runs the domain's IMEX daemons, is outdated, because the driver never changes it: the image is d:v1, and the driver's controller would set d:v2; renew"},
		{"a gate", func(_ *appsv1.DaemonSet, d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[1].Env[1].Value = "A=false, C=true"
		}, "the feature gate A is true, and the driver's controller would set false; the feature gate C is not set, and the driver's controller would set true; renew"},
		{"a limit", func(_ *appsv1.DaemonSet, d *appsv1.Deployment) {
			c := &d.Spec.Template.Spec.Containers[1]
			c.Env = append(c.Env, corev1.EnvVar{Name: "MAX_NODES_PER_IMEX_DOMAIN", Value: "36"})
		}, "MAX_NODES_PER_IMEX_DOMAIN is 18, and the driver's controller would set 36"},
		{"old pods", func(s *appsv1.DaemonSet, _ *appsv1.Deployment) {
			s.Status.CurrentNumberScheduled, s.Status.UpdatedNumberScheduled = 8, 5
		}, "3 of 8 nodes have a pod of an older template"},
		{"a status of an older template", func(s *appsv1.DaemonSet, _ *appsv1.Deployment) {
			s.Status.CurrentNumberScheduled, s.Generation = 8, 2
		}, ""},
		{"another driver's controller", func(_ *appsv1.DaemonSet, d *appsv1.Deployment) {
			d.Namespace, d.Spec.Template.Spec.Containers[1].Env[0].Value = "other", "d:v2"
		}, ""},
		{"no controller", func(_ *appsv1.DaemonSet, d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Command[0] = "sh" }, ""},
		{"another domain's", func(s *appsv1.DaemonSet, d *appsv1.Deployment) {
			s.Labels[imex.DomainLabel], d.Spec.Template.Spec.Containers[1].Env[0].Value = "u2", "d:v2"
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, controller := daemonSet(), deployment()
			c.spoil(set, controller)
			var daemons []daemonsFacts
			if d, keep := readDaemons(set); keep {
				daemons = append(daemons, d)
			}
			var controllers []runsBy
			if r, keep := readController(controller); keep {
				controllers = append(controllers, r)
			}
			domain := imex.Domain{UID: "u1"}
			describe(&domain, daemons, controllers)
			note := domain.Note
			if (note.Reason == imex.DomainOutdated) != (c.want != "") || !strings.Contains(note.Message, c.want) {
				t.Errorf("note %+v, want %q", note, c.want)
			}
		})
	}
}
