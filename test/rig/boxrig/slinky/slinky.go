// Package slinky runs Slinky's slurm-operator, and Slurm by it, in a box: the operator and
// its webhook from their Go module with the module's own CRDs, roles and webhooks; slurmctld,
// slurmrestd and slurmds as the operator's pods, by the module's chart.
package slinky

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
)

//go:embed operator.yaml
var operator string

// The namespaces of the operator and of Slurm.
const (
	operatorNamespace = "slinky"
	namespace         = "slurm"
	webhookName       = "slurm-operator-webhook"
)

// InstallOperator installs the operator and its webhook, and waits until they are ready.
func InstallOperator(ctx context.Context, b *boxrig.Box) error {
	if err := installOperator(ctx, b); err != nil {
		return fmt.Errorf("install slurm-operator: %w", err)
	}
	return nil
}

func installOperator(ctx context.Context, b *boxrig.Box) error {
	module, err := images.Slinky(ctx)
	if err != nil {
		return err
	}
	for _, folder := range []string{images.CRDs, images.Roles} {
		if _, err := b.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(module, folder)); err != nil {
			return err
		}
	}
	if err := b.Apply(ctx, operator); err != nil {
		return err
	}
	authority, err := makeCertificate(ctx, b)
	if err != nil {
		return err
	}
	if _, err := b.Kubectl(ctx, "-n", operatorNamespace, "rollout", "status", "deploy", "--timeout=3m"); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(module, images.Webhooks, "manifests.yaml"))
	if err != nil {
		return err
	}
	webhooks, err := completeWebhooks(string(text), authority)
	if err != nil {
		return err
	}
	if err := b.Apply(ctx, webhooks); err != nil {
		return err
	}
	return await.NoError(ctx, "the webhook answers", func(ctx context.Context) error { return b.Try(ctx, probe) })
}

// probe is an object that the webhook is asked about. A ready webhook is reached only
// when kube-proxy knows of it too.
const probe = `{apiVersion: slinky.slurm.net/v1beta1, kind: RestApi, metadata: {name: probe, namespace: default}, spec: {controllerRef: {name: probe, namespace: default}}}`

// makeCertificate makes the webhook's certificate, which is its own authority.
func makeCertificate(ctx context.Context, b *boxrig.Box) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	host := webhookName + "." + operatorNamespace
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host, host + ".svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "webhook-certs"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		"tls.crt": certificate, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}}
	_, err = b.Client().CoreV1().Secrets(operatorNamespace).Create(ctx, secret, metav1.CreateOptions{})
	return base64.StdEncoding.EncodeToString(certificate), err
}

// completeWebhooks gives the module's webhooks what its chart would: the service, the
// authority, and the namespaces in which they do not stand in the way.
func completeWebhooks(text, authority string) (string, error) {
	var out strings.Builder
	decoder, encoder := yaml.NewDecoder(strings.NewReader(text)), yaml.NewEncoder(&out)
	for {
		var configuration map[string]any
		if err := decoder.Decode(&configuration); errors.Is(err, io.EOF) {
			return out.String(), encoder.Close()
		} else if err != nil {
			return "", fmt.Errorf("read webhooks: %w", err)
		}
		webhooks, _ := configuration["webhooks"].([]any)
		for _, w := range webhooks {
			webhook, _ := w.(map[string]any)
			client, _ := webhook["clientConfig"].(map[string]any)
			service, ok := client["service"].(map[string]any)
			if !ok {
				return "", errors.New("read webhooks: one has no service")
			}
			service["name"], service["namespace"], client["caBundle"] = webhookName, operatorNamespace, authority
			webhook["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{
				"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []string{"kube-system", operatorNamespace, "quoin-system", "quoin-node"}}}}
		}
		if err := encoder.Encode(configuration); err != nil {
			return "", err
		}
	}
}
