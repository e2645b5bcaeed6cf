//! Parsing of message bodies, object by object.

use super::emit::is_loose_upstream;
use super::error::{ErrorKind, ParseError};
use super::error_data::ErrorData;
use super::grammar::KnownObjects;
use super::header::{Flags, at};
use super::iana::{MessageType, ObjectType};
use super::message::{Confirm, Data, Error, Hello, Query, ResponderPart, Response, Returned};
use super::mri::Mri;
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::stack::{Profiles, Stack, StackConfiguration};
use crate::nsis::SessionId;

impl<'a> KnownObjects<'a> {
    #[inline]
    fn mri(&self) -> Result<Mri, ParseError> {
        Mri::parse(self.need(ObjectType::MessageRoutingInformation)?)
    }

    /// Reads the MRI of a Q-mode message, which is routed by the MRI alone.
    #[inline]
    fn q_mode_mri(&self) -> Result<Mri, ParseError> {
        let mri = self.mri()?;
        if is_loose_upstream(&mri) {
            let reader = self.need(ObjectType::MessageRoutingInformation)?;
            return Err(reader.error_at(ErrorKind::Combination, reader.offset() + 2));
        }
        Ok(mri)
    }

    #[inline]
    fn session(&self) -> Result<SessionId, ParseError> {
        self.need(ObjectType::SessionId)?.session()
    }

    #[inline]
    fn nli(&self) -> Result<NetworkLayerInformation<'a>, ParseError> {
        NetworkLayerInformation::parse(self.need(ObjectType::NetworkLayerInformation)?)
    }

    #[inline]
    fn optional_nli(&self) -> Result<Option<NetworkLayerInformation<'a>>, ParseError> {
        self.get(ObjectType::NetworkLayerInformation)
            .map(NetworkLayerInformation::parse)
            .transpose()
    }

    #[inline]
    fn nat_traversal(&self) -> Result<Option<NatTraversal<'a>>, ParseError> {
        self.get(ObjectType::NatTraversal).map(NatTraversal::parse).transpose()
    }

    #[inline]
    fn proposal(&self) -> Result<Option<Profiles<'a>>, ParseError> {
        self.get(ObjectType::StackProposal).map(Profiles::parse).transpose()
    }

    #[inline]
    fn configuration(&self) -> Result<Option<StackConfiguration<'a>>, ParseError> {
        self.get(ObjectType::StackConfigurationData).map(StackConfiguration::parse).transpose()
    }

    /// Reads Stack-Proposal and Stack-Configuration-Data; either both are present or neither.
    #[inline]
    fn stack(&self) -> Result<Option<Stack<'a>>, ParseError> {
        if self.has(ObjectType::StackProposal) { self.read_stack() } else { Ok(None) }
    }

    #[inline(never)] // most messages have none
    fn read_stack(&self) -> Result<Option<Stack<'a>>, ParseError> {
        let (Some(proposal), Some(configuration)) = (self.proposal()?, self.configuration()?)
        else {
            return Ok(None);
        };
        let stack = Stack { proposal, configuration };
        if stack.is_consistent() {
            Ok(Some(stack))
        } else {
            self.bad_stack(ErrorKind::StackMismatch)
        }
    }

    fn bad_stack<T>(&self, kind: ErrorKind) -> Result<T, ParseError> {
        Err(self.need(ObjectType::StackConfigurationData)?.error(kind))
    }

    /// Returns the value of an object without inner structure.
    #[inline]
    fn octets(&self, object_type: ObjectType) -> Option<&'a [u8]> {
        self.get(object_type).map(|reader| reader.rest())
    }

    #[inline]
    fn needed_octets(&self, object_type: ObjectType) -> Result<&'a [u8], ParseError> {
        Ok(self.need(object_type)?.rest())
    }
}

impl<'a> Query<'a> {
    #[inline]
    pub(super) fn parse(known: &KnownObjects<'a>) -> Result<Query<'a>, ParseError> {
        known.check_groups(MessageType::Query)?;
        Ok(Query {
            nat_traversal: known.nat_traversal()?,
            mri: known.q_mode_mri()?,
            session: known.session()?,
            nli: known.nli()?,
            query_cookie: known.needed_octets(ObjectType::QueryCookie)?,
            stack: known.stack()?,
            nslp_data: known.octets(ObjectType::NslpData),
        })
    }
}

impl<'a> Response<'a> {
    #[inline]
    pub(super) fn parse(
        known: &KnownObjects<'a>,
        flags: Flags,
    ) -> Result<Response<'a>, ParseError> {
        known.check_groups(MessageType::Response)?;
        let cookie = known.octets(ObjectType::ResponderCookie);
        if cookie.is_some() && !flags.reply_requested {
            return Err(ParseError::header(ErrorKind::ReplyFlag, at::FLAGS));
        }
        let response = Response {
            nat_traversal: known.nat_traversal()?,
            mri: known.mri()?,
            session: known.session()?,
            nli: known.nli()?,
            query_cookie: known.needed_octets(ObjectType::QueryCookie)?,
            responder: match cookie {
                Some(cookie) => Some(ResponderPart { cookie, stack: known.stack()? }),
                None => None,
            },
            confirm_requested: flags.reply_requested,
            nslp_data: known.octets(ObjectType::NslpData),
        };
        match response.responder.and_then(|part| part.stack) {
            Some(stack) if !stack.has_ports() => known.bad_stack(ErrorKind::Length),
            _ => Ok(response),
        }
    }
}

impl<'a> Confirm<'a> {
    #[inline]
    pub(super) fn parse(known: &KnownObjects<'a>) -> Result<Confirm<'a>, ParseError> {
        known.check_groups(MessageType::Confirm)?;
        Ok(Confirm {
            mri: known.mri()?,
            session: known.session()?,
            nli: known.nli()?,
            returned: match known.octets(ObjectType::ResponderCookie) {
                Some(cookie) => Some(Returned {
                    cookie,
                    proposal: known.proposal()?,
                    configuration: known.configuration()?,
                }),
                None => None,
            },
            nslp_data: known.octets(ObjectType::NslpData),
        })
    }
}

impl<'a> Data<'a> {
    #[inline]
    pub(super) fn parse(known: &KnownObjects<'a>, flags: Flags) -> Result<Data<'a>, ParseError> {
        Ok(Data {
            nat_traversal: known.nat_traversal()?,
            mri: if flags.context_free { known.q_mode_mri()? } else { known.mri()? },
            session: known.session()?,
            nli: known.optional_nli()?,
            nslp_data: known.needed_octets(ObjectType::NslpData)?,
            continuation: known.continuation(),
            context_free: flags.context_free,
            explicitly_routed: flags.explicitly_routed,
        })
    }
}

impl<'a> Error<'a> {
    pub(super) fn parse(known: &KnownObjects<'a>) -> Result<Error<'a>, ParseError> {
        Ok(Error {
            nat_traversal: known.nat_traversal()?,
            nli: known.optional_nli()?,
            error: ErrorData::parse(known.need(ObjectType::Error)?)?,
        })
    }
}

impl Hello {
    pub(super) fn parse(known: &KnownObjects<'_>, flags: Flags) -> Result<Hello, ParseError> {
        let mut reader = known.need(ObjectType::HelloId)?;
        let id_at = reader.offset();
        let id = u32::from_be_bytes(reader.take()?);
        reader.finish()?;
        if flags.reply_requested && id == 0 {
            return Err(reader.error_at(ErrorKind::NotSupported, id_at));
        }
        Ok(Hello { id, reply_requested: flags.reply_requested })
    }
}
