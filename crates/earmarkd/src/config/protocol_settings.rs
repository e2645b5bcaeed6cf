//! Settings of protocols, whose types only the protocols know.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Settings of protocols, at most one value of each type. A type without a value has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProtocolSettings(BTreeMap<TypeId, Box<dyn AnySettings>>);

impl ProtocolSettings {
    /// Returns the value of a type.
    pub fn get<T: Settings>(&self) -> T {
        let value = self.0.get(&TypeId::of::<T>());
        value.and_then(|value| value.as_any().downcast_ref::<T>()).cloned().unwrap_or_default()
    }

    /// Sets the value of a type.
    pub fn set<T: Settings>(&mut self, value: T) {
        // Equal settings are equal here, too, because a default is never stored.
        if value == T::default() {
            self.0.remove(&TypeId::of::<T>());
        } else {
            self.0.insert(TypeId::of::<T>(), Box::new(value));
        }
    }

    /// Changes the value of a type.
    pub fn change<T: Settings>(&mut self, change: impl FnOnce(&mut T)) {
        let mut value = self.get();
        change(&mut value);
        self.set(value);
    }
}

/// A type that can be settings of a protocol.
pub trait Settings: Any + Clone + Debug + Default + PartialEq + Send + Sync {}

impl<T: Any + Clone + Debug + Default + PartialEq + Send + Sync> Settings for T {}

/// Settings without their type.
trait AnySettings: Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn boxed(&self) -> Box<dyn AnySettings>;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: Settings> AnySettings for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn boxed(&self) -> Box<dyn AnySettings> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}

impl Clone for Box<dyn AnySettings> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl PartialEq for Box<dyn AnySettings> {
    fn eq(&self, other: &Self) -> bool {
        (**self).equals((**other).as_any())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_found_by_its_type_and_defaults_are_equal_to_none() {
        let mut settings = ProtocolSettings::default();
        settings.set(7_u32);
        settings.set("text".to_owned());
        assert_eq!((settings.get::<u32>(), settings.get::<String>()), (7, "text".to_owned()));
        assert_eq!(settings.get::<u8>(), 0);
        let copy = settings.clone();
        assert_eq!(copy, settings);
        settings.change(|number: &mut u32| *number += 1);
        assert_ne!(copy, settings);
        settings.set(0_u32);
        settings.set(String::new());
        assert_eq!(settings, ProtocolSettings::default());
    }
}
