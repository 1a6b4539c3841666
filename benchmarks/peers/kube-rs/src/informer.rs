//! Mode informer: a watcher that keeps a store, and counts.

use std::sync::atomic::Ordering::Relaxed;

use futures::StreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Client, ResourceExt};

use crate::meter::METER;
use crate::options::Options;
use crate::subject::{Scope, Subject};
use crate::synced;

/// Keep one kind in a store until the process ends.
pub async fn run<K: Subject>(client: Client, o: Options, scope: Scope, dynamic: K::DynamicType) {
    let writer = reflector::store::Writer::<K>::new(dynamic.clone());
    let store = writer.as_reader();
    let mut synced_before = false;
    let events = watcher(K::api(&client, &scope, &dynamic), watcher::Config::default().streaming_lists());
    let events = events.default_backoff();
    let events = match o.strip {
        true => events.modify(|object: &mut K| object.managed_fields_mut().clear()).boxed(),
        false => events.boxed(),
    };
    let mut events = events.reflect(writer).boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::InitApply(_)) if !synced_before => _ = METER.seen.fetch_add(1, Relaxed),
            Ok(Event::InitApply(_) | Event::Apply(_)) => _ = METER.events.fetch_add(1, Relaxed),
            Ok(Event::InitDone) if !synced_before => {
                synced_before = true;
                synced::one_more();
            }
            _ => {}
        }
    }
    drop(store);
}
