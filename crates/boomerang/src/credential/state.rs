//! State of credentials: where they are required, and with which keys.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use earmark_core::keys::{Directions, KeyChain, SharedKey};
use earmark_core::{Context, InterfaceId, Time};
use earmark_wire::boomerang::{OptionItem, UserId, View};

use super::digest::digest;
use super::key::{Key, Settings};
use crate::api::Event;
use crate::context::HandlerContext;

/// State of credentials.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(super) interfaces: BTreeMap<String, Directions>,
    /// Whether some interface requires credentials.
    pub(crate) are_required: bool,
    /// Keys by user id. The operator chooses the users, so an ordered map is safe.
    pub(super) users: BTreeMap<[u8; 8], KeyChain<Key>>,
    /// Keys with which this host signs.
    pub(super) own: KeyChain<Key>,
}

impl Credentials {
    pub(crate) fn new(settings: &mut Settings) -> Credentials {
        let interfaces = core::mem::take(&mut settings.interfaces);
        let mut credentials = Credentials {
            are_required: interfaces.values().any(|directions| directions.accepts()),
            interfaces,
            ..Credentials::default()
        };
        credentials.replace_keys(core::mem::take(&mut settings.keys));
        credentials
    }

    /// Replaces the keys.
    pub(crate) fn replace_keys(&mut self, keys: Vec<Key>) {
        let own = keys.iter().filter(|key| key.purpose.sends()).cloned().collect();
        let mut users: BTreeMap<_, Vec<Key>> = BTreeMap::new();
        for key in keys {
            if let Some(id) = key.user_id() {
                users.entry(id).or_default().push(key);
            }
        }
        self.own = KeyChain::new(own);
        self.users = users.into_iter().map(|(id, keys)| (id, KeyChain::new(keys))).collect();
    }

    /// Returns the name of an interface that is secured in one of these directions.
    pub(super) fn secured<'c>(
        &self,
        context: &Context<'c>,
        interface: InterfaceId,
        directions: fn(Directions) -> bool,
    ) -> Option<&'c str> {
        let name = context.interfaces.by_id(interface)?.name.as_str();
        self.interfaces.get(name).is_some_and(|&found| directions(found)).then_some(name)
    }

    /// Returns the user id option of a message if its credential is right, and the number of the key if it is used for the
    /// first time after its end.
    pub(super) fn verified(
        &mut self,
        now: Time,
        interface: &str,
        view: &View<'_>,
    ) -> Option<(UserId, Option<u64>)> {
        let id = view.options().iter().find_map(|option| match option {
            OptionItem::UserId(id) => Some(id),
            _ => None,
        })?;
        let keys = self.users.get_mut(&id.user)?;
        let serves = |key: &Key| key.key_use().serves_on(interface);
        let is_right = |key: &Key| {
            key.purpose.accepts()
                && !key.secret.is_empty()
                && serves(key)
                && digest(&key.secret, &id, view).begins_with(&id.credential)
        };
        let mut right = (0..keys.keys().len()).filter(|&index| is_right(&keys.keys()[index]));
        let index = right.find(|&index| keys.is_usable(now, index, serves))?;
        Some((id, keys.report_overdue(now, index)))
    }

    /// Returns the key for a request of this host that leaves by an interface.
    ///
    /// # Errors
    /// The interface requires one, and none serves there.
    pub(crate) fn signer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: Option<InterfaceId>,
    ) -> Result<Option<usize>, Unsigned> {
        let name = interface.and_then(|id| self.secured(cx.context, id, Directions::sends));
        let Some(name) = name else { return Ok(None) };
        let index = self.own.to_sign(cx.now, |key| key.key_use().serves_on(name));
        let index = index.ok_or(Unsigned)?;
        if let Some(key) = self.own.report_overdue(cx.now, index) {
            cx.out.notify(Event::LastKeyExpired { key });
        }
        Ok(Some(index))
    }

    /// Returns a key that [`Credentials::signer`] has chosen.
    pub(crate) fn own_key(&self, index: usize) -> &Key {
        &self.own.keys()[index]
    }

    /// Returns whether this host signs anywhere.
    pub(crate) fn sign(&self) -> bool {
        !self.interfaces.is_empty()
    }
}

/// A message that must not leave, because no key signs it.
pub(crate) struct Unsigned;
