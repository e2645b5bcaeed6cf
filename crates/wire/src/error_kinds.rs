//! The common form of all enums of faults: variants with a fixed name for counters and a text.

/// Declares an enum of faults with `ALL` of its plain variants, `name` and `Display`. A variant after the semicolon
/// wraps the fault of another format, whose name and text it has.
macro_rules! error_kinds {
    (
        $(#[$attribute:meta])*
        pub enum $enum:ident {
            $($(#[$doc:meta])* $variant:ident = $name:literal $text:literal,)*
            $(; $(#[$inner_doc:meta])* $wrapper:ident($inner:ty),)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $enum {
            $($(#[$doc])* $variant,)*
            $($(#[$inner_doc])* $wrapper($inner),)?
        }

        impl $enum {
            /// All faults of this format itself.
            pub const ALL: &[$enum] = &[$($enum::$variant,)*];

            /// Returns a short fixed name for counters.
            pub const fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)*
                    $($enum::$wrapper(inner) => inner.name(),)?
                }
            }
        }

        impl core::fmt::Display for $enum {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $($enum::$variant => f.write_str($text),)*
                    $($enum::$wrapper(inner) => inner.fmt(f),)?
                }
            }
        }
    };
}
