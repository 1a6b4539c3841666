package main

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// kindInfo is what discovery and the routes need to know of a kind. A kind without templates starts empty.
type kindInfo struct {
	group, version, kind, plural string
	namespaced, hasStatus        bool
	templates                    templates
	mixed                        mixture
	message                      func() message // nil: a custom resource, which has no protobuf
}

// template is the JSON of an object, with holes; weight is how often it is taken among those of its kind.
type template struct {
	weight int
	text   string
}

type templates []template

// mixture is the part of a kind in a cluster in use: so many of each hundred objects. Templates: other ones there.
type mixture struct {
	percent   int
	templates templates
}

func only(text string) templates { return templates{{1, text}} }

func (t templates) pick(rng *rand.Rand) string {
	if len(t) == 1 {
		return t[0].text
	}
	total := 0
	for _, one := range t {
		total += one.weight
	}
	at := rng.IntN(total)
	for _, one := range t {
		if at -= one.weight; at < 0 {
			return one.text
		}
	}
	panic("weights are positive")
}

func (k *kindInfo) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

// groupResource is how messages name the kind.
func (k *kindInfo) groupResource() string {
	if k.group == "" {
		return k.plural
	}
	return k.plural + "." + k.group
}

var kinds = []*kindInfo{
	{"bench.steersman.dev", "v1", "Widget", "widgets", true, true, only(widget), mixture{percent: 4}, nil},
	{"", "v1", "Pod", "pods", true, true, only(pod), mixture{percent: 28}, func() message { return new(corev1.Pod) }},
	{"", "v1", "ConfigMap", "configmaps", true, false, only(configMap), mixture{12, configMapTexts()}, func() message { return new(corev1.ConfigMap) }},
	{"", "v1", "Secret", "secrets", true, false, secretTexts(), mixture{percent: 14}, func() message { return new(corev1.Secret) }},
	{"", "v1", "Service", "services", true, true, only(compact(serviceText())), mixture{percent: 7}, func() message { return new(corev1.Service) }},
	{"", "v1", "ServiceAccount", "serviceaccounts", true, false, only(compact(serviceAccountText())), mixture{percent: 5}, func() message { return new(corev1.ServiceAccount) }},
	{"apps", "v1", "Deployment", "deployments", true, true, only(compact(deploymentText())), mixture{percent: 7}, func() message { return new(appsv1.Deployment) }},
	{"apps", "v1", "ReplicaSet", "replicasets", true, true, templates{{1, compact(replicaSetText("<<replicas>>"))}, {2, compact(replicaSetText("0"))}}, mixture{percent: 17}, func() message { return new(appsv1.ReplicaSet) }},
	{"batch", "v1", "Job", "jobs", true, true, only(compact(jobText())), mixture{percent: 2}, func() message { return new(batchv1.Job) }},
	{"networking.k8s.io", "v1", "Ingress", "ingresses", true, true, only(compact(ingressText())), mixture{percent: 2}, func() message { return new(networkingv1.Ingress) }},
	{"rbac.authorization.k8s.io", "v1", "Role", "roles", true, false, only(compact(roleText())), mixture{percent: 2}, func() message { return new(rbacv1.Role) }},
	{"", "v1", "Namespace", "namespaces", false, true, nil, mixture{}, func() message { return new(corev1.Namespace) }},
	{"", "v1", "Event", "events", true, false, nil, mixture{}, func() message { return new(corev1.Event) }},
	{"events.k8s.io", "v1", "Event", "events", true, false, nil, mixture{}, func() message { return new(eventsv1.Event) }},
	{"coordination.k8s.io", "v1", "Lease", "leases", true, false, nil, mixture{}, func() message { return new(coordinationv1.Lease) }},
	{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false, true, nil, mixture{}, nil},
}

var (
	version    = fmt.Sprint(firstVersion)
	generation = fmt.Sprint(firstGeneration)
	widget     = compact(widgetText)
	pod        = compact(podText)
	configMap  = compact(configMapText)
)

// A custom resource as the API server returns one: keys sorted, one managed-fields entry by its author.
const widgetText = `
{"apiVersion":"bench.steersman.dev/v1","kind":"Widget","metadata":{
"annotations":{"bench.steersman.dev/sent-at":"<<stamp>>","team":"<<team>>"},
"creationTimestamp":"<<created>>","generation":<<generation>>,
"labels":{"app.kubernetes.io/name":"<<app>>","pod-template-hash":"<<hash>>"},
"managedFields":[{"apiVersion":"bench.steersman.dev/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:env":{},"f:image":{},"f:port":{},"f:replicas":{}}},"manager":"kubectl","operation":"Apply","time":"<<created>>"}],
"name":"<<name>>","namespace":"<<ns>>","resourceVersion":"<<version>>","uid":"<<uid>>"},
"spec":{"env":[{"name":"UPSTREAM","value":"https://<<host>>:<<port>>"},{"name":"TOKEN_ID","value":"<<hex16>>"},{"name":"REGION","value":"<<team>>"}],
"image":"<<image>>","port":<<port>>,"replicas":<<replicas>>,
"resources":{"cpu":"<<milli>>","memory":"<<mebi>>"},"schedule":"<<n>> * * * *","suspend":false},
"status":{"endpoint":"<<name>>.<<ns>>.svc:8080","observedGeneration":<<generation>>,"phase":"Ready","readyReplicas":<<replicas>>}}
`

// A running Pod of a Deployment, fields in the API server's order, managed fields of its two usual writers.
const podText = `
{"kind":"Pod","apiVersion":"v1","metadata":{"name":"<<name>>","generateName":"<<app>>-<<hash>>-","namespace":"<<ns>>","uid":"<<uid>>","resourceVersion":"<<version>>","generation":<<generation>>,"creationTimestamp":"<<created>>",
"labels":{"app.kubernetes.io/instance":"<<app>>","app.kubernetes.io/name":"<<word>>","app.kubernetes.io/version":"<<n>>.<<n>>","pod-template-hash":"<<hash>>","team":"<<team>>"},
"annotations":{"bench.steersman.dev/sent-at":"<<stamp>>","checksum/config":"<<hex64>>","prometheus.io/port":"<<port>>","prometheus.io/scrape":"true"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"<<app>>-<<hash>>","uid":"<<newuid>>","controller":true,"blockOwnerDeletion":true}],
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"<<created>>","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/version":{},"f:pod-template-hash":{},"f:team":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"<<newuid>>\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"<<word>>\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"DATABASE_URL\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{},"f:name":{},"f:ports":{},"f:readinessProbe":{},"f:resources":{},"f:volumeMounts":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:serviceAccount":{},"f:volumes":{}}}},
{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"<<later>>","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{},"k:{\"type\":\"Initialized\"}":{},"k:{\"type\":\"Ready\"}":{}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},"f:startTime":{}}},"subresource":"status"}]},
"spec":{"volumes":[{"name":"config","configMap":{"name":"<<app>>-config","defaultMode":420}},{"name":"kube-api-access-<<suffix>>","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],
"containers":[{"name":"<<word>>","image":"<<image>>","args":["--listen=:<<port>>","--upstream=<<host>>"],"ports":[{"name":"http","containerPort":<<port>>,"protocol":"TCP"}],
"env":[{"name":"DATABASE_URL","value":"postgres://<<word>>:<<hex16>>@<<host>>:5432/<<word>>"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}},{"name":"TRACE_ID","value":"<<hex16>>"}],
"resources":{"limits":{"cpu":"<<milli>>","memory":"<<mebi>>"},"requests":{"cpu":"<<milli>>","memory":"<<mebi>>"}},
"volumeMounts":[{"name":"config","readOnly":true,"mountPath":"/etc/<<word>>"},{"name":"kube-api-access-<<suffix>>","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],
"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"<<app>>","serviceAccount":"<<app>>","nodeName":"<<node>>","securityContext":{},"schedulerName":"default-scheduler",
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},
"status":{"observedGeneration":<<generation>>,"phase":"Running","conditions":[
{"type":"Initialized","observedGeneration":1,"status":"True","lastProbeTime":null,"lastTransitionTime":"<<created>>"},
{"type":"Ready","observedGeneration":1,"status":"True","lastProbeTime":null,"lastTransitionTime":"<<later>>"},
{"type":"ContainersReady","observedGeneration":1,"status":"True","lastProbeTime":null,"lastTransitionTime":"<<later>>"}],
"hostIP":"<<ip>>","hostIPs":[{"ip":"<<ip>>"}],"podIP":"<<ip>>","podIPs":[{"ip":"<<ip>>"}],"startTime":"<<created>>",
"containerStatuses":[{"name":"<<word>>","state":{"running":{"startedAt":"<<later>>"}},"lastState":{},"ready":true,"restartCount":<<n>>,"image":"<<image>>","imageID":"sha256:<<digest>>","containerID":"containerd://<<hex64>>","started":true}],"qosClass":"Burstable"}}
`

const configMapText = `
{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"<<name>>","namespace":"<<ns>>","uid":"<<uid>>","resourceVersion":"<<version>>","creationTimestamp":"<<created>>",
"annotations":{"bench.steersman.dev/sent-at":"<<stamp>>"},
"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"<<created>>","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:app.properties":{}}}}]},
"data":{"app.properties":"<<lines>>"}}
`
