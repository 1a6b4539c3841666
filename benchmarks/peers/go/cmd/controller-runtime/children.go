package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"steersman.dev/benchmarks/peers/go/internal/widget"
)

// applyChildren makes sure of what a Widget owns. Each child is read from the cache and written only where it
// differs; fields that the API server defaults are left alone or said as it defaults them, so that it settles.
func (r *reconciler) applyChildren(ctx context.Context, w *widget.Widget) error {
	labels := map[string]string{"app.kubernetes.io/name": w.Name}

	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.Name + "-config", Namespace: w.Namespace}}
	err := r.ensure(ctx, w, config, labels, func() error {
		config.Data = map[string]string{"image": w.Spec.Image, "schedule": w.Spec.Schedule}
		return nil
	})
	if err != nil {
		return err
	}

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace}}
	err = r.ensure(ctx, w, service, labels, func() error {
		service.Spec.Selector = labels
		service.Spec.Ports = []corev1.ServicePort{{
			Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(w.Spec.Port),
		}}
		return nil
	})
	if err != nil {
		return err
	}

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace}}
	return r.ensure(ctx, w, deployment, labels, func() error { return fillDeployment(deployment, w, labels) })
}

func (r *reconciler) ensure(ctx context.Context, w *widget.Widget, child client.Object, labels map[string]string, fill func() error) error {
	outcome, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.SetLabels(labels)
		if err := fill(); err != nil {
			return err
		}
		return controllerutil.SetControllerReference(w, child, r.scheme)
	})
	if err == nil && outcome != controllerutil.OperationResultNone {
		r.m.Patches.Add(1)
	}
	return err
}

func fillDeployment(deployment *appsv1.Deployment, w *widget.Widget, labels map[string]string) error {
	cpu, err := resource.ParseQuantity(w.Spec.Resources.CPU)
	if err != nil {
		return err
	}
	memory, err := resource.ParseQuantity(w.Spec.Resources.Memory)
	if err != nil {
		return err
	}
	environment := make([]corev1.EnvVar, 0, len(w.Spec.Env))
	for _, e := range w.Spec.Env {
		environment = append(environment, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	spec := &deployment.Spec
	spec.Replicas = &w.Spec.Replicas
	spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	spec.Template.Labels = labels
	if len(spec.Template.Spec.Containers) != 1 {
		spec.Template.Spec.Containers = make([]corev1.Container, 1)
	}
	container := &spec.Template.Spec.Containers[0]
	container.Name = "widget"
	container.Image = w.Spec.Image
	container.Env = environment
	container.Ports = []corev1.ContainerPort{{Name: "http", Protocol: corev1.ProtocolTCP, ContainerPort: w.Spec.Port}}
	container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
	return nil
}
