//! Everything a server shows, asked for in every way there is, and the ways compared with each other.

use std::collections::BTreeMap;

use api::client::Client;
use api::models::{ActualLrPsRequest, ActualLrp, DesiredLrPsRequest, DesiredLrp, ModificationTag, Task, TasksRequest};

use super::world::{CELLS, World, cell};

/// What a server shows at a moment when nobody writes.
#[derive(Debug)]
pub(crate) struct Census {
    pub(crate) lrps: Vec<DesiredLrp>,
    pub(crate) rows: Vec<ActualLrp>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) domains: Vec<String>,
}

impl Census {
    /// Takes the full lists, and checks that look-ups and filtered lists say the same.
    pub(crate) async fn take(client: &Client) -> Self {
        let lrps = client.desired_lrps(DesiredLrPsRequest::default()).await.unwrap();
        let rows = client.actual_lrps(ActualLrPsRequest::default()).await.unwrap();
        let tasks = client.tasks(TasksRequest::default()).await.unwrap();
        let domains = client.domains().await.unwrap();
        let census = Self { lrps, rows, tasks, domains };
        census.check_lrps(client).await;
        census.check_rows(client).await;
        census.check_tasks(client).await;
        census
    }

    async fn check_lrps(&self, client: &Client) {
        for lrp in &self.lrps {
            assert_eq!(&client.desired_lrp_by_process_guid(&lrp.process_guid).await.unwrap(), lrp);
        }
        let infos = client.desired_lrp_scheduling_infos(DesiredLrPsRequest::default()).await.unwrap();
        let mut guids: Vec<_> = infos.iter().map(|info| &info.desired_lrp_key.as_ref().unwrap().process_guid).collect();
        let mut listed: Vec<_> = self.lrps.iter().map(|lrp| &lrp.process_guid).collect();
        guids.sort();
        listed.sort();
        assert_eq!(guids, listed);
        for domain in ["apps", "nobody's"] {
            let filter = DesiredLrPsRequest { domain: domain.into(), ..DesiredLrPsRequest::default() };
            let expected = self.lrps.iter().filter(|lrp| lrp.domain == domain).count();
            assert_eq!(client.desired_lrps(filter).await.unwrap().len(), expected, "{domain}");
        }
    }

    async fn check_rows(&self, client: &Client) {
        let on =
            |row: &ActualLrp| row.actual_lrp_instance_key.as_ref().map(|key| key.cell_id.clone()).unwrap_or_default();
        for number in 0..=CELLS {
            let cell_id = cell(number);
            let filter = ActualLrPsRequest { cell_id: cell_id.clone(), ..ActualLrPsRequest::default() };
            let found = client.actual_lrps(filter).await.unwrap();
            let expected: Vec<_> = self.rows.iter().filter(|row| on(row) == cell_id).cloned().collect();
            assert_eq!(found, expected, "the index by cell, {cell_id}");
        }
        let filter = ActualLrPsRequest { domain: "apps".into(), ..ActualLrPsRequest::default() };
        assert_eq!(client.actual_lrps(filter).await.unwrap(), self.rows, "the index by domain");
        let mut by_process: BTreeMap<String, Vec<ActualLrp>> = BTreeMap::new();
        for row in &self.rows {
            let guid = row.actual_lrp_key.as_ref().unwrap().process_guid.clone();
            by_process.entry(guid).or_default().push(row.clone());
        }
        for (process_guid, expected) in by_process {
            let filter = ActualLrPsRequest { process_guid: process_guid.clone(), ..ActualLrPsRequest::default() };
            assert_eq!(client.actual_lrps(filter).await.unwrap(), expected, "{process_guid}");
        }
    }

    async fn check_tasks(&self, client: &Client) {
        for task in &self.tasks {
            assert_eq!(&client.task_by_guid(&task.task_guid).await.unwrap(), task);
        }
        for number in 0..=CELLS {
            let filter = TasksRequest { cell_id: cell(number), ..TasksRequest::default() };
            let expected: Vec<_> = self.tasks.iter().filter(|task| task.cell_id == cell(number)).cloned().collect();
            assert_eq!(client.tasks(filter).await.unwrap(), expected, "the index by cell, {number}");
        }
    }

    /// What it shows of the records whose ids begin with `name`. What belongs to nobody is in nobody's world.
    pub(crate) fn world_of(&self, name: &str) -> World {
        let prefix = format!("{name}-");
        let mut world = World::default();
        self.lrps.iter().filter(|lrp| lrp.process_guid.starts_with(&prefix)).for_each(|lrp| world.put_lrp(lrp));
        let guid = |row: &ActualLrp| row.actual_lrp_key.as_ref().unwrap().process_guid.clone();
        self.rows.iter().filter(|row| guid(row).starts_with(&prefix)).for_each(|row| world.put_row(row));
        self.tasks.iter().filter(|task| task.task_guid.starts_with(&prefix)).for_each(|task| world.put_task(task));
        world.domains = self.domains.iter().filter(|name| name.starts_with(&prefix)).cloned().collect();
        world
    }

    pub(crate) fn records(&self) -> usize {
        self.lrps.len() + self.rows.len() + self.tasks.len() + self.domains.len()
    }

    pub(crate) fn tags(&self) -> Tags {
        let mut tags = Tags::default();
        for lrp in &self.lrps {
            tags.0.insert(lrp.process_guid.clone(), lrp.modification_tag.clone().unwrap());
        }
        tags.add_rows(&self.rows);
        tags
    }
}

/// The newest modification tag that somebody was shown, by record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags(BTreeMap<String, ModificationTag>);

impl Tags {
    pub(crate) fn add_rows(&mut self, rows: &[ActualLrp]) {
        for row in rows {
            let key = row.actual_lrp_key.as_ref().unwrap();
            let name = format!("{}/{}/{}", key.process_guid, key.index, row.presence);
            self.0.insert(name, row.modification_tag.clone().unwrap());
        }
    }

    /// Takes what was seen later. Within an epoch a tag never goes back, whatever happened in between.
    pub(crate) fn follow(&mut self, later: Tags) {
        for (record, tag) in later.0 {
            if let Some(seen) = self.0.get(&record) {
                assert!(
                    seen.epoch != tag.epoch || seen.index <= tag.index,
                    "the tag of {record} went back from {seen:?} to {tag:?}"
                );
            }
            self.0.insert(record, tag);
        }
    }
}
