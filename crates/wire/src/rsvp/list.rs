//! Lists that are decoded during iteration: SCOPE addresses, filters, fixed-filter flows.
//!
//! The parser has checked every object of a [`List::Wire`], so that iteration cannot fail. A `Wire` of unchecked octets
//! ends at the first one that cannot be decoded.

use core::fmt;

/// A list in a message: octets of a parsed message, already checked, or a slice to be emitted.
///
/// Equality compares the values in order.
#[derive(Clone, Copy)]
pub enum List<'a, T> {
    /// Objects as received, headers included.
    Wire(&'a [u8]),
    /// Values to be emitted.
    Items(&'a [T]),
}

/// Items of a [`List`].
pub trait Item<'a>: Copy + sealed::Sealed {
    /// State that decoding keeps from one item to the next.
    #[doc(hidden)]
    type State: Copy + Default;

    /// Takes the next item of `rest`.
    #[doc(hidden)]
    fn next(rest: &mut &'a [u8], state: &mut Self::State) -> Option<Self>;
}

/// Trait without which no other crate can implement [`Item`].
pub(super) mod sealed {
    pub trait Sealed {}
}

/// Iterator over the items of a [`List`], by value.
#[derive(Clone, Copy, Debug)]
pub struct ListIter<'a, T: Item<'a>> {
    list: List<'a, T>,
    state: T::State,
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// No items.
    pub const EMPTY: List<'a, T> = List::Wire(&[]);

    /// Iterates over the items in the order of the message.
    #[inline]
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { list: *self, state: T::State::default() }
    }

    /// Calls `each` for each item until it fails. Avoids copies of items to be emitted.
    #[inline]
    pub(super) fn try_for_each<E>(
        &self,
        mut each: impl FnMut(&T) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            List::Wire(_) => self.iter().try_for_each(|item| each(&item)),
            List::Items(items) => items.iter().try_for_each(each),
        }
    }

    /// Returns the sum of `amount` over the items. Avoids copies of items to be emitted.
    #[inline]
    pub(super) fn sum(&self, amount: impl Fn(&T) -> usize) -> usize {
        match self {
            List::Wire(_) => self.iter().map(|item| amount(&item)).sum(),
            List::Items(items) => items.iter().map(amount).sum(),
        }
    }

    /// Number of items. Items on the wire are counted by iteration.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            List::Wire(_) => self.iter().count(),
            List::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<'a, T: Item<'a>> Iterator for ListIter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.list {
            List::Wire(rest) => T::next(rest, &mut self.state),
            List::Items(items) => {
                let (first, rest) = items.split_first()?;
                *items = rest;
                Some(*first)
            }
        }
    }
}

impl<'a, T: Item<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    #[inline]
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Item<'a>> IntoIterator for &List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    #[inline]
    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Item<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Item<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
