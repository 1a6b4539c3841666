package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// setDefaults fills in what the API server fills in for the kinds that controllers make here, so that a client meets
// the same difference between what it wants and what it reads.
func setDefaults(m message) {
	switch m := m.(type) {
	case *corev1.Service:
		serviceDefaults(&m.Spec)
	case *appsv1.Deployment:
		deploymentDefaults(&m.Spec)
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func fillPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func serviceDefaults(s *corev1.ServiceSpec) {
	fill(&s.ClusterIP, "10.96.17.4")
	if s.ClusterIPs == nil {
		s.ClusterIPs = []string{s.ClusterIP}
	}
	fill(&s.Type, corev1.ServiceTypeClusterIP)
	fill(&s.SessionAffinity, corev1.ServiceAffinityNone)
	if s.IPFamilies == nil {
		s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	fillPointer(&s.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	fillPointer(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	for i := range s.Ports {
		fill(&s.Ports[i].Protocol, corev1.ProtocolTCP)
		fill(&s.Ports[i].TargetPort, intstr.FromInt32(s.Ports[i].Port))
	}
}

func deploymentDefaults(d *appsv1.DeploymentSpec) {
	fillPointer(&d.Replicas, 1)
	fillPointer(&d.RevisionHistoryLimit, 10)
	fillPointer(&d.ProgressDeadlineSeconds, 600)
	fill(&d.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		fillPointer(&d.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		fillPointer(&d.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		fillPointer(&d.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	pod := &d.Template.Spec
	fill(&pod.RestartPolicy, corev1.RestartPolicyAlways)
	fillPointer(&pod.TerminationGracePeriodSeconds, 30)
	fill(&pod.DNSPolicy, corev1.DNSClusterFirst)
	fillPointer(&pod.SecurityContext, corev1.PodSecurityContext{})
	fill(&pod.SchedulerName, corev1.DefaultSchedulerName)
	for i := range pod.Containers {
		container := &pod.Containers[i]
		fill(&container.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		fill(&container.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
		fill(&container.ImagePullPolicy, corev1.PullIfNotPresent)
		for j := range container.Ports {
			fill(&container.Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}
